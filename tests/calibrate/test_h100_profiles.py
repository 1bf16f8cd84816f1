"""The shipped H100 profiles, of kernels timed on an H100, and how near those come that were derived from an H200."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calibrate.importers import ImportRequest
from calibrate.importers.aiconfigurator import read
from calibrate.probe import cost_of
from calibrate.regime import Kind, kind_of
from capsim.catalog import load_gpu, load_model
from capsim.catalog.data import data_folder, data_names, data_path
from capsim.cost import BatchShape, Profile, RooflineCost, load_profile
from tests.calibrate.derived_profiles import NAMES, against_measured

SAMPLE = Path(__file__).parent / "samples" / "transfer" / "h100"
OPTIONS = {
    "release": "aiconfigurator-core 0.12.0",
    "date": "2026-08-21",
    "gpu_name": "NVIDIA H100 80GB HBM3",
}
PREFIXES = {"h100": "h100-sxm", "a100": "a100-80gb-sxm", "b200": "b200", "l40s": "l40s"}
"""GPU of the profiles imported from NVIDIA's package, by what their names begin with."""
SHIPPED = [name for name in data_names("profiles", (".json",)) if name.split("-")[0] in PREFIXES]
FOUR_DIGITS = (
    1e-3  # the sample keeps four; the largest difference, 4e-4, is of a cell that was filled from others
)


@pytest.fixture(params=SHIPPED)
def shipped(request: pytest.FixtureRequest) -> Profile:
    return load_profile(data_path("profiles", request.param))


def test_what_is_shipped() -> None:
    gpus = [name.split("-")[0] for name in SHIPPED]
    assert {gpu: gpus.count(gpu) for gpu in PREFIXES} == {"h100": 14, "a100": 2, "b200": 2, "l40s": 1}


def test_a_shipped_profile_was_measured_on_its_gpu(shipped: Profile) -> None:
    stated = shipped.provenance
    assert stated.gpu == PREFIXES[Path(shipped.source).stem.split("-")[0]]
    assert load_gpu(stated.gpu_name).name == stated.gpu
    assert not stated.derived_from
    assert "derived" not in {operator.tag for operator in shipped.operators} | set(shipped.tags.values())
    assert shipped.tags["prefill"] == shipped.tags["decode"] == "measured"
    assert shipped.tags["host"] == "assumed"


def test_a_shipped_profile_is_small_and_carries_its_attribution(shipped: Profile) -> None:
    stated = shipped.provenance
    assert Path(shipped.source).stat().st_size < 20_000
    assert stated.licence == "Apache-2.0"
    assert "aiconfigurator-core 0.12.0" in stated.attribution
    # Decode attention of the one model whose heads the tables lack was timed on an H100 by others.
    other = stated.model == "llama-2-7b"
    assert ("inference-sim" in stated.attribution) == other
    assert any("with other kernels and launches included" in note for note in stated.notes) == other


def test_decode_of_one_costs_at_least_reading_the_weights(shipped: Profile) -> None:
    stated = shipped.provenance
    gpu = load_gpu(stated.gpu)
    roofline = RooflineCost(load_model(stated.model), gpu, stated.tensor_parallel_size, stated.dtype)
    step = cost_of(shipped).step(BatchShape((), 1, shipped.ranges["context"][0])) - shipped.host
    assert step >= roofline.operators.streamed_weight_bytes() / gpu.memory_bandwidth


def numbers(value: Any) -> Iterator[float]:
    """All numbers of a document, in order."""
    if isinstance(value, dict):
        for name in sorted(value):
            yield from numbers(value[name])
    elif isinstance(value, list):
        for each in value:
            yield from numbers(each)
    elif isinstance(value, (int, float)):
        yield value


@pytest.mark.parametrize("ranks", [1, 2])
def test_the_sample_gives_the_shipped_profile(ranks: int) -> None:
    model = load_model("llama-3.1-8b")
    asked = ImportRequest(model, gpu="h100-sxm", tensor_parallel_size=ranks, options=OPTIONS)
    made = json.loads(read(SAMPLE, asked).text())
    there = json.loads((data_folder("profiles") / f"h100-llama-3.1-8b-bf16-tp{ranks}.json").read_text())
    provenances = [profile.pop("provenance") for profile in (made, there)]
    for stated in provenances:
        del (
            stated["files"],
            stated["notes"],
        )  # the sample is a part of the files, and its digits are in the notes
    assert provenances[0] == provenances[1]
    assert list(numbers(made)) == pytest.approx(list(numbers(there)), rel=FOUR_DIGITS)


@pytest.mark.parametrize("name", NAMES)
def test_steps_carried_over_are_near_those_of_the_gpus_own_kernels(name: str) -> None:
    """As `capsim calibrate check` has it, a kind of step at a time; the page says the figures.

    With layers in 16 bit they come within 5 %, where check says AGREE, in 8 bit within 10 %: large 8-bit products took
    longer on the H100 than on the H200, whose arithmetic is the same, which no rule from data sheets can know.
    """
    compared = against_measured(name)
    found: dict[Kind, list[float]] = {}
    for batch, difference in zip(compared.batches, compared.relative, strict=True):
        found.setdefault(kind_of(batch), []).append(abs(difference))
    assert len(found) == 6
    limit = 0.10 if "fp8" in name else 0.05
    assert max(float(np.median(differences)) for differences in found.values()) < limit
