"""The service of a published run: model, GPU, engine and step cost, from the catalog and the engine's defaults."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from capsim.catalog import load_gpu, load_model
from capsim.catalog.data import data_names, data_path
from capsim.catalog.gpu import Gpu
from capsim.catalog.loader import known_model
from capsim.catalog.model import Model
from capsim.cost import Profile, ProfileCost, RooflineCost, StepCost, load_profile
from capsim.errors import BadInput
from tests.truth.public import refusal
from tests.truth.public.refusal import Refused
from tests.truth.public.rows import Row

GPUS = {
    "A100-80GB": "a100-80gb-sxm",
    "A100-SXM-80GB": "a100-80gb-sxm",
    "AMD Instinct MI300X 192GB HBM3": "mi300x",
    "GB200": "gb200",
    "H100": "h100-sxm",
    "H100-80GB": "h100-sxm",
    "H100-80GB (GKE nvidia-h100-80gb)": "h100-sxm",
    "H100-SXM-80GB": "h100-sxm",
    "H100-SXM5-80GB": "h100-sxm",
    "H200-SXM-141GB": "h200",
    "NVIDIA B200-SXM-180GB": "b200",
    "NVIDIA H100-SXM-80GB": "h100-sxm",
    "NVIDIA H200-SXM-141GB": "h200",
    "NVIDIA L40S": "l40s",
    "RTX 4090 24GB": "rtx-4090",
    "RTX PRO 6000 Blackwell (96GB)": "rtx-pro-6000",
}
"""Catalog names of what the sources call a GPU; where its form is not told, the SXM one."""
MODELS = {
    "/workspace/DeepSeek-R1-0528": "deepseek-v3",
    "Qwen/Qwen3-14B-FP8": "qwen3-14b",
    "Qwen/Qwen3-235B-A22B-Instruct-2507": "qwen3-235b-a22b",
    "Qwen/Qwen3-235B-A22B-Instruct-2507-FP8": "qwen3-235b-a22b",
    "Qwen/Qwen3-30B-A3B-Instruct-2507": "qwen3-30b-a3b",
    "Qwen/Qwen3-32B-FP8": "qwen3-32b",
    "Qwen/Qwen3-8B-FP8": "qwen3-8b",
    "meta-llama/Llama-3.1-405B-FP8": "llama-3.1-405b",
    "nvidia/Llama-3.1-405B-Instruct-FP8": "llama-3.1-405b",
    "nvidia/Llama-3.1-8B-Instruct-FP8": "llama-3.1-8b",
    "nvidia/Llama-3.3-70B-Instruct-FP8": "llama-3.3-70b",
    "nvidia/Qwen3-235B-A22B-FP8": "qwen3-235b-a22b",
    "zai-org/GLM-4.5-Air-FP8": "glm-4.5-air",
    "zai-org/GLM-4.6-FP8": "glm-4.6",
}
"""Catalog names of checkpoints with the same shapes; Qwen3's of July 2025 differ in the longest sequence alone."""
WEIGHTS = {
    "": "bfloat16",
    "awq": "int4",
    "bf16": "bfloat16",
    "bfloat16": "bfloat16",
    "checkpoint default": "bfloat16",
    "fp4": "int4",
    "fp8": "fp8",
    "fp8 (column label)": "fp8",
    "fp8 dynamic": "fp8",
    "gptq int8": "int8",
    "gptq-marlin int4": "int4",
    "int4 w4a16": "int4",
    "mxfp4": "int4",
}
"""Dtypes by what the sources call them. 4-bit floats are priced as 4-bit integers: read narrow, computed at 16 bits."""


@dataclass(frozen=True)
class Hardware:
    """What computes.

    Attributes:
        model: as checkpoints have it.
        gpu: one of them.
        ranks: that share the model.
        replicas: behind one load generator.
        weights: dtype.
        kv: dtype.
        expert_parallel: whole experts on each rank.
    """

    model: Model
    gpu: Gpu
    ranks: int
    replicas: int
    weights: str
    kv: str
    expert_parallel: bool

    @property
    def words(self) -> str:
        """GPUs, for a table."""
        return f"{self.replicas * self.ranks} x {self.gpu.name}" + (" EP" if self.expert_parallel else "")

    @property
    def model_words(self) -> str:
        """Model and its weights, for a table."""
        dtype = {"bfloat16": "bf16", "int4": "4-bit"}.get(self.weights, self.weights)
        return f"{self.model.name} {dtype}" + (", fp8 KV" if self.kv == "fp8" else "")


def hardware_of(row: Row) -> Hardware:
    """Model, GPUs and precisions of a row.

    Raises:
        Refused: what the catalog lacks, or no step cost covers.
    """
    if row["gpu"] not in GPUS:
        raise Refused(refusal.GPU, row["gpu"])
    name = MODELS.get(row["model"]) or known_model(row["model"])
    if not name:
        raise Refused(refusal.MODEL, row["model"])
    model, ranks = load_model(name), int(row["tp"])
    if model.latent is not None:
        raise Refused(refusal.ATTENTION, model.name)
    four_bit = model.name.startswith("gpt-oss")  # published in 4 bits, whatever a table's column says
    return Hardware(
        model,
        load_gpu(GPUS[row["gpu"]]),
        ranks,
        int(row["n_gpus"]) // ranks,
        "int4" if four_bit else _weights(row),
        "fp8" if row["kv_dtype"].startswith("fp8") else "bfloat16",
        row.flags.expert_parallel and model.experts is not None,
    )


def _weights(row: Row) -> str:
    """Dtype; of a checkpoint that is named after it, that one."""
    narrow = row["model"].lower().endswith("-fp8") and not row["weight_dtype"]
    return "fp8" if narrow else WEIGHTS[row["weight_dtype"]]


def refuse_unmodelled(row: Row) -> None:
    """Refuse a row for a feature of the engine that is not simulated, or for what it does not tell."""
    failed, done = row.noted("failures") or 0, re.match(r"\d+", row["num_prompts"])
    if "prefill" in row["engine"]:
        raise Refused(refusal.DISAGGREGATED)
    if row.flags.speculative:
        raise Refused(refusal.SPECULATIVE)
    if row["pp"] not in {"", "1"}:
        raise Refused(refusal.PIPELINE, f"{row['pp']} stages")
    if row.flags.data_parallel:
        raise Refused(refusal.DATA_PARALLEL)
    if row["weight_dtype"] == "fp4" and "B200" in row["gpu"]:
        raise Refused(refusal.FOUR_BIT, row["gpu"])
    if done and failed > int(done[0]) / 100:
        raise Refused(refusal.TIMED_OUT, f"{failed:.0f} of them")
    if "sweep" in row["input_len"]:
        raise Refused(refusal.SWEEP)
    if not row["tp"]:
        raise Refused(refusal.PARALLELISM)


def step_cost(hardware: Hardware) -> StepCost:
    """Seconds of a step: of a shipped profile that matches, or of the roofline with its own defaults."""
    for profile in _profiles():
        if profile.provenance.gpu == hardware.gpu.name:
            try:
                return ProfileCost(
                    profile,
                    hardware.model,
                    hardware.weights,
                    hardware.kv,
                    hardware.ranks,
                    expert_parallel=hardware.expert_parallel,
                )
            except BadInput:  # of another model, dtype or number of ranks
                continue
    return RooflineCost(
        hardware.model,
        hardware.gpu,
        hardware.ranks,
        hardware.weights,
        hardware.kv,
        expert_parallel=hardware.expert_parallel,
    )


@cache
def _profiles() -> tuple[Profile, ...]:
    return tuple(load_profile(data_path("profiles", name)) for name in data_names("profiles", (".json",)))
