"""The `memory` of a profile: as members of the file, and written into one that is there."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from calibrate.profile_text import profile_text, write_profile
from capsim.catalog import Gpu, Model
from capsim.cost import load_profile
from capsim.cost.profile_memory import FIGURES
from capsim.errors import BadInput, Fault
from capsim.memory import KvLayout
from capsim.memory.question import MemoryQuestion
from capsim.memory.startup_log import StartupLog

Members = dict[str, Any]


@dataclass(frozen=True)
class Holds:
    """What measured memory holds for.

    Attributes:
        model: whose weights and KV.
        dtype: of the weights.
        kv_dtype: of the KV cache.
        gpu: of the catalog; None on a CPU.
    """

    model: Model
    dtype: str
    kv_dtype: str
    gpu: Gpu | None


def section_of(question: MemoryQuestion, log: StartupLog, source: str) -> Members:
    """What a start tells.

    Args:
        question: its settings.
        log: what the engine says of it.
        source: ``log``, or ``engine`` where capsim started it.
    """
    origin = {"tag": "measured", "source": source, "version": question.engine_version}
    members: Members = {
        name: {**origin, "bytes": size} for name in FIGURES if (size := getattr(log, name)) is not None
    }
    if log.activations is not None:
        members["activations"] = {
            **origin,
            "tokens": [question.max_num_batched_tokens],
            "sequences": [min(question.max_num_seqs, question.max_num_batched_tokens)],
            "bytes": [log.activations],
        }
    return members | cache_section(question.layout, log, question.engine_version, source)


def cache_section(layout: KvLayout, log: StartupLog, version: str, source: str = "engine") -> Members:
    """A block of the KV cache, of its whole and its blocks; nothing where the engine does not tell both."""
    if not (log.kv and log.num_gpu_blocks):
        return {}
    size = round(log.kv / log.num_gpu_blocks)
    origin = {"tag": "derived", "source": source, "version": version}
    return {"block": {**origin, "tokens": layout.block_size, "bytes": size}}


def merged(old: Members, new: Members) -> Members:
    """Both; where both have a part the new one counts, and peaks of one engine version are put together."""
    found = {**old, **new}
    before, after = old.get("activations"), new.get("activations")
    if before and after and all(before[name] == after[name] for name in ("tag", "source", "version")):
        points = {
            tokens: (sequences, size) for tokens, sequences, size in (*_points(before), *_points(after))
        }
        tokens = sorted(points)
        found["activations"] = {
            **after,
            "tokens": tokens,
            "sequences": [points[each][0] for each in tokens],
            "bytes": [points[each][1] for each in tokens],
        }
    return found


def write_into(path: Path, section: Members, holds: Holds, tensor_parallel_size: int) -> None:
    """Put the section into a profile of the same model on the same GPU, which it must be.

    Raises:
        BadInput: the profile is damaged, holds for something else, or cannot be written.
    """
    profile = load_profile(path)
    profile.check(holds.model, holds.dtype, holds.kv_dtype, tensor_parallel_size)
    stated = profile.provenance.gpu
    if holds.gpu is not None and stated != holds.gpu.name:
        what = f"the profile was measured on {stated}, the memory on {holds.gpu.name}"
        raise BadInput(Fault(str(path), what, key="provenance.gpu"))
    members = json.loads(path.read_text(encoding="utf-8"))
    members["memory"] = merged(members.get("memory", {}), section)
    write_profile(path, profile_text(members))


def _points(peaks: Members) -> list[tuple[int, int, int]]:
    return list(zip(peaks["tokens"], peaks["sequences"], peaks["bytes"], strict=True))
