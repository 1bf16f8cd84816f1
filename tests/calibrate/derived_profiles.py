"""Profiles of an H100 derived from kernels of an H200, beside the shipped ones of kernels timed on the H100 itself."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from calibrate.check import Comparison, compare_profiles
from calibrate.importers import ImportRequest
from calibrate.importers.aiconfigurator import read
from capsim.catalog import load_model
from capsim.catalog.data import data_path
from capsim.cost import Profile, load_profile

KEPT = Path(__file__).parents[1] / "truth" / "h100"
"""Those that measured runs are judged with, and two in 8 bit."""
TABLES = Path(__file__).parent / "samples" / "aiconfigurator"
FROM_SAMPLE = {
    "h100-llama-3.1-8b-bf16-tp1": ("llama-3.1-8b", "bfloat16", 1),
    "h100-llama-3.1-8b-bf16-tp2": ("llama-3.1-8b", "bfloat16", 2),
    "h100-llama-3.1-70b-fp8-tp8": ("llama-3.1-70b", "fp8", 8),
}
"""Model, dtype and GPUs of those whose kernels the sample holds."""
NAMES = (*sorted(path.stem for path in KEPT.glob("*.json")), *FROM_SAMPLE)


def derived(name: str) -> Profile:
    """The derived profile: as it is kept, or made of the sample."""
    if name not in FROM_SAMPLE:
        return load_profile(KEPT / f"{name}.json")
    model, dtype, ranks = FROM_SAMPLE[name]
    asked = ImportRequest(
        load_model(model), gpu="h200", scale_to="h100-sxm", dtype=dtype, tensor_parallel_size=ranks
    )
    return read(TABLES, asked).profile()


@cache
def against_measured(name: str) -> Comparison:
    """Steps by the derived profile and by the shipped one of the same name."""
    return compare_profiles(derived(name), load_profile(data_path("profiles", f"{name}.json")))
