"""What an engine printed about its memory when it started."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from capsim.errors import BadInput, Fault

_GIB = 1 << 30
_SIZE = r"(-?\d+(?:\.\d+)?) ?Gi?B"
"""Older releases print GB and mean GiB."""

_SIZES: Mapping[str, tuple[str, ...]] = {
    "total": (rf"Free memory on device (?:cuda:\d+ )?\([\d.]+/{_SIZE}\)", rf"total_gpu_memory \({_SIZE}\)"),
    "weights": (
        rf"(?:Model loading|Loading model weights) took {_SIZE}",
        rf"weights memory: {_SIZE}",
        rf"Actual usage is {_SIZE} for weight\b",
        rf"model weights take {_SIZE}",
    ),
    "activations": (
        rf"torch peak memory increase: {_SIZE}",
        rf"{_SIZE} for peak activation",
        rf"PyTorch activation peak memory takes {_SIZE}",
    ),
    "non_torch": (
        rf"non-torch forward increase memory: {_SIZE}",
        rf"{_SIZE} for non-torch memory",
        rf"non_torch_memory takes {_SIZE}",
    ),
    "consumed": (rf"total consumed \(from mem_get_info\): {_SIZE}", rf"{_SIZE} for consumed memory"),
    "estimated_graphs": (rf"Estimated CUDA graph memory: {_SIZE}",),
    "graphs": (
        rf"CUDA graph pool memory: {_SIZE} \(actual\)",
        rf"Graph capturing finished in \d+ secs?, took {_SIZE}",
        rf"{_SIZE} for CUDAGraph memory",
    ),
    "kv": (
        rf"Available KV cache memory: {_SIZE}",
        rf"Current kv cache memory in use is {_SIZE}",
        rf"the rest of the memory reserved for KV Cache is {_SIZE}",
    ),
}
"""Lines that print a size, by what it is the size of, the one with most digits first."""
_COUNTS: Mapping[str, tuple[str, ...]] = {
    "kv_tokens": (r"GPU KV cache size: ([\d,]+) tokens",),
    "num_gpu_blocks": (r"num_gpu_blocks is: (\d+)", r"# (?:GPU|CUDA|cuda) blocks: (\d+)"),
}
_SETTINGS: Mapping[str, tuple[Callable[[str], object], tuple[str, ...]]] = {
    "version": (str, (r"LLM engine \(v([^)\s]+)\)", r"API server version (\S+)", r"█\s+version (\S+)")),
    "tensor_parallel_size": (int, (r"\btensor_parallel_size=(\d+)",)),
    "pipeline_parallel_size": (int, (r"\bpipeline_parallel_size=(\d+)",)),
    "data_parallel_size": (int, (r"\bdata_parallel_size=(\d+)",)),
    "enforce_eager": ("True".__eq__, (r"\benforce_eager=(True|False)",)),
    "kv_cache_dtype": (str, (r"\bkv_cache_dtype=(\w+)",)),
    "max_model_len": (int, (r"\bmax_seq_len=(\d+)",)),
    "max_num_batched_tokens": (int, (r"\bmax_num_batched_tokens=(\d+)", r"'max_num_batched_tokens': (\d+)")),
    "max_num_seqs": (int, (r"'max_num_seqs': (\d+)",)),
    "block_size": (int, (r"'block_size': (\d+)",)),
    "gpu_memory_utilization": (
        float,
        (
            r"Desired GPU memory utilization is \((\d\.\d+)",
            r"current --gpu-memory-utilization=(\d\.\d+)",
            r"'gpu_memory_utilization': (\d\.\d+)",
            r"gpu_memory_utilization \((\d\.\d+)\)",
        ),
    ),
}
_BEGINNING = re.compile(r"API server version \d|█\s+version \d")
_COLOUR = re.compile(r"\x1b\[[\d;]*m")
_LOOKED_FOR = (
    "'Model loading took ... GiB', 'Available KV cache memory: ... GiB', 'GPU KV cache size: ... tokens' and "
    "'# GPU blocks: ...', as vLLM 0.11 and later print them"
)


@dataclass(frozen=True)
class StartupLog:
    """Memory of one rank as vLLM printed it; what the log does not say is None. Sizes in bytes.

    Of several ranks the one with most of everything counts, and the one with least room for the KV cache, because
    that one decides. Sizes are printed to 0.01 GiB.

    Attributes:
        source: the file.
        settings: engine settings that the log names, by the name of the scenario's key.
        total: of the GPU, as the driver reports it.
        weights: of the model.
        activations: peak of the profiling run.
        non_torch: CUDA context, libraries and communication buffers.
        estimated_graphs: CUDA graphs as estimated before the KV cache was sized.
        graphs: CUDA graphs as captured.
        kv: what was left for the KV cache; negative in an engine that did not start.
        kv_tokens: tokens of the KV cache.
        num_gpu_blocks: blocks of the KV cache.
    """

    source: str
    settings: Mapping[str, object]
    total: int | None = None
    weights: int | None = None
    activations: int | None = None
    non_torch: int | None = None
    estimated_graphs: int | None = None
    graphs: int | None = None
    kv: int | None = None
    kv_tokens: int | None = None
    num_gpu_blocks: int | None = None


def read_startup_log(path: Path) -> StartupLog:
    """Read the last start in a log of vLLM.

    Raises:
        BadInput: the file cannot be read, has no line that an engine prints when it starts, or ends before the KV
            cache.
    """
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise BadInput(Fault(str(path), f"cannot be read: {error.strerror}")) from error
    return parse_startup_log(text, str(path))


def parse_startup_log(text: str, source: str) -> StartupLog:
    """See `read_startup_log`."""
    text = _last_start(_COLOUR.sub("", text))
    settings = {name: value for name in _SETTINGS if (value := _setting(text, name)) is not None}
    sizes = {
        name: min(found) if name == "kv" else max(found)
        for name, patterns in _SIZES.items()
        if (found := _sizes(text, patterns))
    }
    counts = {
        name: min(found)
        for name, patterns in _COUNTS.items()
        if (found := [int(number.replace(",", "")) for number in _first(text, patterns)])
    }
    if not sizes and not counts:
        raise BadInput(Fault(source, "is not the log of an engine's start", expected=_LOOKED_FOR))
    if "kv" not in sizes and not counts:
        what = "ends before the engine sized its KV cache, so that it says nothing about what remains"
        raise BadInput(Fault(source, what, expected="'Available KV cache memory: ... GiB'"))
    consumed = sizes.pop("consumed", None)
    if consumed is not None and "weights" in sizes:
        sizes.setdefault("non_torch", max(0, consumed - sizes["weights"]))
    if settings.get("data_parallel_size", 1) != 1 and "kv_tokens" in counts:
        # Of replicas in one server the blocks are printed as a sum, the tokens of each.
        counts.pop("num_gpu_blocks", None)
    return StartupLog(source, settings, **sizes, **counts)


def _last_start(text: str) -> str:
    """A log may hold several starts: a container that was restarted appends."""
    beginnings = [match.start() for match in _BEGINNING.finditer(text)]
    return text[beginnings[-1] :] if beginnings else text


def _first(text: str, patterns: tuple[str, ...]) -> list[str]:
    """What the first of the patterns that occurs finds, everywhere that it occurs."""
    return next((found for pattern in patterns if (found := re.findall(pattern, text))), [])


def _sizes(text: str, patterns: tuple[str, ...]) -> list[int]:
    return [round(float(size) * _GIB) for size in _first(text, patterns)]


def _setting(text: str, name: str) -> object:
    read, patterns = _SETTINGS[name]
    found = _first(text, patterns)
    return read(found[0]) if found else None
