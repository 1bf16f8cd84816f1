"""Which keys of `engine` a command line settles, and what it says beyond them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from capsim.scenario.serve_command import Problem, ServeCommand, StatedFlag
from capsim.scenario.serve_flags import Effect

_WHOLE = re.compile(r"-?\d+")
_NUMBER = re.compile(r"\d*\.?\d+(?:[eE][-+]?\d+)?")
_SCALED = re.compile(r"(\d+(?:\.\d+)?)([kmgtKMGT])")
_SCALES = {"k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
"""vLLM's own: 16k is 16,000 tokens, 16K is 16,384."""
SIXTEEN_BITS = {"bfloat16": "bfloat16", "float16": "float16", "half": "float16"}
QUANTIZATIONS = {
    "fp8": "fp8",
    "fbgemm_fp8": "fp8",
    "ptpc_fp8": "fp8",
    "awq": "int4",
    "awq_marlin": "int4",
}
"""Methods whose name says how many bits a weight has; vLLM's AWQ has 4."""
KV_DTYPES = {
    "auto": "auto",
    "bfloat16": "bfloat16",
    "float16": "auto",
    "fp8": "fp8",
    "fp8_e4m3": "fp8",
    "fp8_e5m2": "fp8",
}
LONGEST = ("auto", "-1")
"""A `max_model_len` that the model or the memory decides."""


@dataclass
class ServeSettings:
    """What a command line means.

    Attributes:
        keys: values of `engine`, each with the flag that says so.
        ignored: flags without effect on capacity.
        not_modelled: flags that do change it, and are left out.
        problems: what is refused, or cannot be read.
    """

    keys: dict[str, tuple[StatedFlag, Any]] = field(default_factory=dict)
    ignored: list[StatedFlag] = field(default_factory=list)
    not_modelled: list[StatedFlag] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)


def serve_settings(command: ServeCommand, stated: Mapping[str, Any]) -> ServeSettings:
    """Sort a command line's flags by what becomes of them.

    Args:
        command: the command line.
        stated: the keys of `engine` that stand beside it: some say what a flag leaves open.
    """
    found = ServeSettings(problems=list(command.problems))
    for flag in command.last().values():
        match flag.flag.effect:
            case Effect.MODELLED:
                _modelled(flag, stated, found)
            case Effect.IGNORED:
                found.ignored.append(flag)
            case _ if not flag.changes_something or _settled_beside(flag, stated):
                found.ignored.append(flag)
            case Effect.NOT_MODELLED:
                found.not_modelled.append(flag)
            case Effect.REFUSED:
                found.problems.append(
                    Problem(f"{flag.name}: {flag.flag.reason}", "a command line without it")
                )
    return found


def _settled_beside(flag: StatedFlag, stated: Mapping[str, Any]) -> bool:
    """Whether a key of the scenario says what the flag would."""
    if flag.flag.name.startswith("kv-offloading-"):
        return bool(stated.get("kv_offload"))
    return flag.flag.name == "kv-cache-memory-bytes" and _pool(stated)


def _pool(stated: Mapping[str, Any]) -> bool:
    return any(stated.get(key) is not None for key in ("num_gpu_blocks", "num_gpu_blocks_override"))


def _modelled(flag: StatedFlag, stated: Mapping[str, Any], found: ServeSettings) -> None:
    for key, value in READERS.get(flag.flag.name, _plain)(flag, stated, found):
        found.keys[key] = (flag, value)


Settled = Iterator[tuple[str, Any]]
Reader = Callable[[StatedFlag, Mapping[str, Any], ServeSettings], Settled]


def _plain(flag: StatedFlag, stated: Mapping[str, Any], found: ServeSettings) -> Settled:  # noqa: ARG001
    """A flag whose key has its name; what is no number is for the schema to refuse."""
    yield flag.flag.name.replace("-", "_"), flag.on if flag.flag.values == "!" else _number(flag.value)


def _blocks(flag: StatedFlag, stated: Mapping[str, Any], found: ServeSettings) -> Settled:  # noqa: ARG001
    yield "num_gpu_blocks", _number(flag.value)


def _length(flag: StatedFlag, stated: Mapping[str, Any], found: ServeSettings) -> Settled:  # noqa: ARG001
    if flag.value.lower() not in LONGEST:
        yield "max_model_len", _number(flag.value)


def _dtype(flag: StatedFlag, stated: Mapping[str, Any], found: ServeSettings) -> Settled:
    """The dtype of the arithmetic: that of the weights, unless they are quantized."""
    quantized = "dtype" in found.keys or stated.get("dtype") in ("fp8", "int8", "int4")
    if flag.value == "auto" or quantized:
        found.ignored.append(flag)
    elif flag.value in SIXTEEN_BITS:
        yield "dtype", SIXTEEN_BITS[flag.value]
    else:
        found.problems.append(
            Problem(f"{flag}: weights of this dtype are not modelled", "bfloat16 or float16")
        )


def _quantization(flag: StatedFlag, stated: Mapping[str, Any], found: ServeSettings) -> Settled:
    method = flag.value.lower().replace("-", "_")
    if method in QUANTIZATIONS:
        yield "dtype", QUANTIZATIONS[method]
    elif method in ("none", "null") or stated.get("dtype") is not None:
        found.ignored.append(flag)
    else:
        what = f"{flag}: does not say how many bits a weight has"
        found.problems.append(Problem(what, "engine.dtype beside args: fp8, int8 or int4"))


def _kv_dtype(flag: StatedFlag, stated: Mapping[str, Any], found: ServeSettings) -> Settled:  # noqa: ARG001
    if flag.value in KV_DTYPES:
        yield "kv_cache_dtype", KV_DTYPES[flag.value]
    else:
        known = ", ".join(KV_DTYPES)
        found.problems.append(Problem(f"{flag}: a KV cache of this dtype is not modelled", f"one of {known}"))


def _text_only(flag: StatedFlag, stated: Mapping[str, Any], found: ServeSettings) -> Settled:  # noqa: ARG001
    if flag.on:
        yield "limit_mm_per_prompt", {"image": 0}


def _limits(flag: StatedFlag, stated: Mapping[str, Any], found: ServeSettings) -> Settled:  # noqa: ARG001
    """Images are counted; video and sound are not."""
    limits = flag.mapping()
    if limits is None:
        found.problems.append(Problem(f"{flag}: no limits can be read", """'{"image": 2}'"""))
        return
    for kind, limit in limits.items():
        count = limit.get("count", 1) if isinstance(limit, dict) else limit
        if kind == "image":
            yield "limit_mm_per_prompt", {"image": count}
        elif count:
            found.not_modelled.append(
                StatedFlag(flag.flag, "--limit-mm-per-prompt", (f'{{"{kind}": {count}}}',), part=())
            )


def _number(text: str) -> Any:
    """A number as vLLM reads it; any other text as it is."""
    if _WHOLE.fullmatch(text):
        return int(text)
    if _NUMBER.fullmatch(text):
        return float(text)
    scaled = _SCALED.fullmatch(text)
    return int(float(scaled[1]) * _SCALES[scaled[2]]) if scaled else text


READERS: Mapping[str, Reader] = {
    "dtype": _dtype,
    "kv-cache-dtype": _kv_dtype,
    "language-model-only": _text_only,
    "limit-mm-per-prompt": _limits,
    "max-model-len": _length,
    "num-gpu-blocks-override": _blocks,
    "quantization": _quantization,
}
"""Flags whose key has another name, or other values."""
