"""An all-reduce over several GPUs (or processes of a CPU) by torch.distributed, a process a rank."""

from __future__ import annotations

import tempfile
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
import torch.distributed
import torch.multiprocessing

from calibrate.microbenchmark.sample import Sample, Timing

NCCL, GLOO = "nccl", "gloo"


def time_all_reduce(ranks: int, elements: int, backend: str, timing: Timing) -> Sample:
    """Seconds of an all-reduce of 16-bit elements.

    Args:
        ranks: processes; with `NCCL` one a GPU.
        elements: of one message.
        backend: `NCCL` or `GLOO`.
        timing: how often.
    """
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(
            _worker, args=(ranks, elements, backend, timing, folder), nprocs=ranks, join=True
        )
        lines = (Path(folder) / "seconds").read_text(encoding="utf-8").split()
    return Sample.of([float(line) for line in lines])


def _worker(rank: int, ranks: int, elements: int, backend: str, timing: Timing, folder: str) -> None:
    place = f"cuda:{rank}" if backend == NCCL else "cpu"
    if backend == NCCL:
        torch.cuda.set_device(rank)
    torch.distributed.init_process_group(
        backend, init_method=f"file://{folder}/meeting", rank=rank, world_size=ranks
    )
    message = torch.randn(elements).to(torch.bfloat16).to(place)
    seconds = [_seconds(message, 1, place) for _ in range(3)]
    calls = torch.tensor(timing.calls(min(seconds)))
    if backend == NCCL:
        calls = calls.to(place)
    torch.distributed.broadcast(calls, 0)  # all ranks must make as many
    many = int(calls)
    found = [_seconds(message, many, place) / many for _ in range(timing.repeats)]
    if rank == 0:
        (Path(folder) / "seconds").write_text("\n".join(map(repr, found)), encoding="utf-8")
    torch.distributed.destroy_process_group()


def _seconds(message: Any, calls: int, place: str) -> float:
    """Seconds of so many all-reduces; the numbers are drawn anew, or sums would grow without end."""
    message.normal_()
    torch.distributed.barrier()
    _finish(place)
    start = perf_counter()
    for _ in range(calls):
        torch.distributed.all_reduce(message, op=torch.distributed.ReduceOp.MAX)
    _finish(place)
    return perf_counter() - start


def _finish(place: str) -> None:
    if place != "cpu":
        torch.cuda.synchronize()
