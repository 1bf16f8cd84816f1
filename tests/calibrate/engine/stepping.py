"""An engine without kernels: every request gets a token a step, and what was in each step is kept."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from calibrate.engine.engine import Answer, EngineSettings, Progress
from calibrate.engine.step_log import SCHEDULED, SCHEDULER_FILE, WORKER_FILE, clear
from calibrate.engine_steps import EngineHeader


@dataclass
class Running:
    """A request on its way."""

    prompt: Sequence[int]
    output: int
    progress: Progress | None
    answered: asyncio.Future[list[float]]
    tokens: list[float]


class SteppingEngine:
    """Runs steps as long as there are requests; a prompt is computed in the request's first step.

    Attributes:
        steps: lengths of the prompts, and number of decodes, of each step.
        prompts: token ids of each request, in order.
    """

    header = EngineHeader("stepping", "1", "nothing", "tiny")
    kv_tokens = 100_000
    vocabulary = 100

    def __init__(self, log: Path, settings: EngineSettings | None = None) -> None:
        self.settings = settings or EngineSettings(log)
        self.log = log
        self.steps: list[tuple[tuple[int, ...], int]] = []
        self.prompts: list[Sequence[int]] = []
        self.names: set[str] = set()
        self.forgotten = 0
        self.stopped = False
        self._running: list[Running] = []
        self._loop: asyncio.Task[None] | None = None
        clear(log)

    async def generate(
        self, name: str, prompt: Sequence[int], output: int, progress: Progress | None = None
    ) -> Answer:
        sent = time.monotonic()
        assert name not in self.names, "an engine takes a name once"
        self.names.add(name)
        self.prompts.append(prompt)
        running = Running(prompt, output, progress, asyncio.get_running_loop().create_future(), [])
        self._running.append(running)
        if self._loop is None or self._loop.done():
            self._loop = asyncio.create_task(self._run())
        return Answer(sent, tuple(await running.answered), 0)

    async def forget_prefixes(self) -> None:
        self.forgotten += 1

    def stop(self) -> None:
        self.stopped = True

    async def _run(self) -> None:
        while self._running:
            start = time.monotonic()
            batch = list(self._running)
            await asyncio.sleep(0.0005)
            new = tuple(len(each.prompt) for each in batch if not each.tokens)
            self.steps.append((new, len(batch) - len(new)))
            self._write(start, new, [len(each.prompt) + len(each.tokens) for each in batch if each.tokens])
            for each in batch:
                each.tokens.append(time.monotonic())
                if each.progress is not None:
                    each.progress(len(each.tokens))
                if len(each.tokens) == each.output:
                    self._running.remove(each)
                    each.answered.set_result(each.tokens)

    def _write(self, start: float, new: Sequence[int], contexts: Sequence[int]) -> None:
        end = time.monotonic()
        cells = dict.fromkeys(SCHEDULED, "0") | {
            "t_start": f"{start:.6f}",
            "t_sched_end": f"{start:.6f}",
            "t_model_end": f"{end:.6f}",
            "t_end": f"{end:.6f}",
            "n_prefill_reqs": str(len(new)),
            "prefill_tokens": str(sum(new)),
            "n_decode": str(len(contexts)),
            "decode_ctx": str(sum(contexts)),
            "n_new": str(len(new)),
            "chunks": " ".join(f"{each}@0" for each in new),
            "decode_squares": str(sum(context**2 for context in contexts)),
            "decode_longest": str(max(contexts, default=0)),
        }
        with (self.log / SCHEDULER_FILE).open("a") as file:
            file.write(",".join(cells.values()) + "\n")
        with (self.log / WORKER_FILE).open("a") as file:
            file.write(f"{start + 1e-5:.6f},{end - 1e-5:.6f},,\n")
