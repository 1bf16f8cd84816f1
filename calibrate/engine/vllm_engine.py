"""vLLM: its public client, and scheduler and worker classes of its own options that log each step.

All that depends on vLLM's version is here. Written against 0.32.0; the engine calls its scheduler interface unstable
itself, so that another version may need another copy of this file. The hooks log and change nothing. A scheduler that
is no ``AsyncScheduler`` makes vLLM schedule synchronously: each step is measured from its own beginning to its end.

On a GPU kernels run behind the worker's clock: ``w_exec_*`` is then the launch, and the wait for the GPU is in
``w_sample_*``. A step's whole time holds either way.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import platform
import sys
import time
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")

import vllm
from vllm.engine.arg_utils import AsyncEngineArgs
from vllm.platforms import current_platform
from vllm.sampling_params import RequestOutputKind
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.engine.async_llm import AsyncLLM

from calibrate.engine.engine import Answer, EngineSettings, Progress
from calibrate.engine.step_log import SCHEDULER_FILE, WORKER_FILE, clear
from calibrate.engine_steps import EngineHeader
from capsim.errors import BadInput, Fault

if current_platform.is_cpu():
    from vllm.v1.worker.cpu_worker import CPUWorker as PlatformWorker
else:
    from vllm.v1.worker.gpu_worker import Worker as PlatformWorker

KV_BYTES = 2**29
"""Of the KV cache on a CPU, where vLLM would take 92 % of the machine's memory."""
LOG = "capsim_log"
"""Where the log's folder stands in vLLM's ``additional_config``, which its processes are given."""
_now = time.monotonic


class LoggingScheduler(Scheduler):  # type: ignore[misc]  # untyped where vLLM is not installed
    """Logs what it schedules; a line a step, once the step is done."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._log = _Log(self.vllm_config, SCHEDULER_FILE)
        self._pending: list[str] = []
        self._preempted = 0
        if current_platform.is_cpu():
            _keep_to({max(_cores(), default=0)})

    def _preempt_request(self, *arguments: Any, **options: Any) -> Any:
        self._preempted += 1
        return super()._preempt_request(*arguments, **options)

    def schedule(self, *arguments: Any, **options: Any) -> Any:
        """Schedule as vLLM does, and keep what was chosen."""
        start = _now()
        output = super().schedule(*arguments, **options)
        end = _now()
        self._pending = []
        if output.total_num_scheduled_tokens:
            self._pending = [f"{start:.6f},{end:.6f}", self._scheduled(output)]
            self._preempted = 0
        return output

    def update_from_output(self, *arguments: Any, **options: Any) -> Any:
        """Update as vLLM does, and write the step's line."""
        model_end = _now()
        result = super().update_from_output(*arguments, **options)
        if self._pending:
            times, scheduled = self._pending
            self._log.write(f"{times},{model_end:.6f},{_now():.6f},{scheduled}")
        return result

    def _scheduled(self, output: Any) -> str:
        """What was scheduled, columns ``n_prefill_reqs`` to ``decode_longest``."""
        chunks: list[tuple[int, int]] = []
        contexts: list[int] = []
        sampled = 0
        for name, tokens in output.num_scheduled_tokens.items():
            request = self.requests[name]
            after = request.num_computed_tokens  # already counts this step
            past = after - tokens
            sampled += after >= request.num_tokens
            if tokens == 1 and past >= request.num_prompt_tokens and after == request.num_tokens:
                contexts.append(after)
            else:
                chunks.append((tokens, past))
        cells = (
            len(chunks),
            sum(new for new, _ in chunks),
            sum(past for _, past in chunks),
            sum(new * past + new * (new + 1) // 2 for new, past in chunks),
            len(contexts),
            sum(contexts),
            len(self.running),
            len(self.waiting),
            self._preempted,
            len(output.scheduled_new_reqs),
            len(output.scheduled_cached_reqs.resumed_req_ids),
            self.kv_cache_manager.block_pool.get_num_free_blocks(),
            sampled,
            " ".join(f"{new}@{past}" for new, past in chunks),
            sum(context * context for context in contexts),
            max(contexts, default=0),
        )
        return ",".join(map(str, cells))


class LoggingWorker(PlatformWorker):  # type: ignore[misc]  # untyped where vLLM is not installed
    """Logs when the forward pass and sampling begin and end; the first rank does."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._log = _Log(self.vllm_config, WORKER_FILE) if self.rank == 0 else None
        self._forward = ""

    def execute_model(self, scheduler_output: Any) -> Any:
        """Execute as vLLM does."""
        start = _now()
        output = super().execute_model(scheduler_output)
        forward = f"{start:.6f},{_now():.6f}" if scheduler_output.total_num_scheduled_tokens else ""
        if forward and output is not None:  # sampled already
            self._write(f"{forward},,")
            forward = ""
        self._forward = forward
        return output

    def sample_tokens(self, grammar_output: Any) -> Any:
        """Sample as vLLM does."""
        start = _now()
        output = super().sample_tokens(grammar_output)
        if self._forward:
            self._write(f"{self._forward},{start:.6f},{_now():.6f}")
            self._forward = ""
        return output

    def _write(self, line: str) -> None:
        if self._log is not None:
            self._log.write(line)


class _Log:
    """A file that lines are appended to, each at once, so that another process can read them."""

    def __init__(self, vllm_config: Any, name: str) -> None:
        path = Path(vllm_config.additional_config[LOG]) / name
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def write(self, line: str) -> None:
        os.write(self._file, f"{line}\n".encode())


class VllmEngine:
    """vLLM's asynchronous client, whose engine runs in processes of its own."""

    def __init__(self, settings: EngineSettings, log: Path) -> None:
        self.settings = settings
        self.log = log
        self._cores = _cores()
        try:
            self._client = AsyncLLM.from_engine_args(AsyncEngineArgs(**_arguments(settings, log)))
        except (TypeError, ValueError, RuntimeError) as error:
            what = f"did not start: {error}"
            raise BadInput(Fault("vllm", what, expected="arguments that vLLM takes")) from error
        config = self._client.vllm_config
        self.kv_tokens = config.cache_config.num_gpu_blocks * config.cache_config.block_size
        self.vocabulary = config.model_config.get_vocab_size()
        self.header = EngineHeader(
            engine="vllm",
            version=vllm.__version__,
            device=_device(),
            settings={**settings.members(), "block_size": config.cache_config.block_size},
            date=date.today().isoformat(),
        )

    async def generate(
        self, name: str, prompt: Sequence[int], output: int, progress: Progress | None = None
    ) -> Answer:
        """Serve one request, greedily and without text."""
        sampling = vllm.SamplingParams(
            temperature=0.0,
            max_tokens=output,
            ignore_eos=True,
            detokenize=False,
            output_kind=RequestOutputKind.DELTA,
        )
        sent, cached = _now(), 0
        times: list[float] = []
        async for part in self._client.generate(
            vllm.TokensPrompt(prompt_token_ids=list(prompt)), sampling, name
        ):
            times += [_now()] * len(part.outputs[0].token_ids)
            cached = cached or part.num_cached_tokens or 0
            if progress is not None:
                progress(len(times))
        return Answer(sent, tuple(times), cached)

    async def forget_prefixes(self) -> None:
        """Empty the prefix cache; it refuses while blocks are still held, which is until shortly after an answer."""
        for _ in range(100):
            if await self._client.reset_prefix_cache():
                return
            await asyncio.sleep(0.02)

    def stop(self) -> None:
        """End the engine's processes, and give this one its cores back."""
        self._client.shutdown()
        del self._client
        _keep_to(self._cores)


def start(settings: EngineSettings, log: Path) -> VllmEngine:
    """Start vLLM; on a CPU the worker's threads have all cores but the last, and engine core and client that one.

    Raises:
        BadInput: it refuses its arguments, or does not come up.
    """
    clear(log)
    if not current_platform.is_cpu():
        return VllmEngine(settings, log)
    _prepare_cpu()
    engine = VllmEngine(settings, log)  # its worker may use the cores that this process may use
    _keep_to({max(_cores(), default=0)})
    return engine


def _arguments(settings: EngineSettings, log: Path) -> dict[str, Any]:
    here = __name__
    standard: dict[str, Any] = {"kv_cache_memory_bytes": KV_BYTES, "enforce_eager": True}
    return {
        **(standard if current_platform.is_cpu() else {}),
        **settings.members(),
        "model": str(settings.model.resolve()),
        "load_format": "dummy",
        "skip_tokenizer_init": True,
        "scheduler_cls": f"{here}.LoggingScheduler",
        "worker_cls": f"{here}.LoggingWorker",
        "additional_config": {LOG: str(log.resolve())},
        "disable_log_stats": True,
    }


def _prepare_cpu() -> None:
    """Bind the worker's threads, and have Intel's OpenMP library loaded first, as vLLM's guide for CPUs asks."""
    cores = sorted(_cores())
    if len(cores) > 1:
        os.environ.setdefault("VLLM_CPU_OMP_THREADS_BIND", ",".join(map(str, cores[:-1])))
    library = Path(sys.prefix) / "lib" / "libiomp5.so"
    if library.exists():
        loaded = os.environ.get("LD_PRELOAD", "")
        os.environ["LD_PRELOAD"] = f"{loaded}:{library}" if loaded else str(library)


def _cores() -> set[int]:
    """Cores that this process may use; none where the system does not tell."""
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()


def _keep_to(cores: set[int]) -> None:
    """Keep all threads of this process to these cores, where the system lets it."""
    with contextlib.suppress(OSError):
        for thread in os.listdir("/proc/self/task"):
            os.sched_setaffinity(int(thread), cores)


def _device() -> str:
    """Name of the GPU, or of the CPU as Linux tells it."""
    if not current_platform.is_cpu():
        return str(current_platform.get_device_name())
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return f"{line.partition(':')[2].strip()}, {os.cpu_count()} cores"
    return platform.processor() or "a CPU"
