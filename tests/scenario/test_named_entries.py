"""What a scenario names of the catalog: an entry, a file of one's own, or a name that is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from capsim.catalog import load_gpu
from capsim.catalog.data import data_path
from capsim.catalog.entry import gpu_text
from capsim.errors import BadInput
from capsim.scenario import load, resolved
from tests.scenario.test_load import MINIMAL, SHIPPED, written

OWN = replace(load_gpu("h200"), name="mine", link_bandwidth=225e9)


def refusal(tmp_path: Path, *changes: tuple[str, str]) -> list[str]:
    """Faults of the minimal scenario with some names replaced, without the folder of the file."""
    text = MINIMAL
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    with pytest.raises(BadInput) as refused:
        load(written(tmp_path, text))
    return [str(fault).removeprefix(f"{tmp_path}/") for fault in refused.value.faults]


def test_a_gpu_beside_the_scenario_is_read_and_recorded_by_its_path(tmp_path: Path) -> None:
    file = tmp_path / "my-gpu.yaml"
    file.write_text(gpu_text(OWN), encoding="utf-8")
    scenario = load(written(tmp_path, MINIMAL.replace("gpu: h200", "gpu: ./my-gpu.yaml")))
    assert scenario.gpu == OWN
    assert scenario.gpu_file == file.resolve()
    assert resolved(scenario)["gpu"] == str(file.resolve())


def test_a_path_of_a_shipped_gpu_is_that_gpu() -> None:
    scenario = load(SHIPPED, [f"gpu={data_path('gpus', 'h100-sxm.yaml')}", "step_cost={}"])
    assert scenario.gpu == load_gpu("h100")
    assert scenario.gpu_file is None


def test_a_gpu_s_file_that_is_not_there_or_at_fault_is_refused(tmp_path: Path) -> None:
    assert refusal(tmp_path, ("gpu: h200", "gpu: mine.yaml")) == [
        "s.yaml:4:6: gpu: there is no file 'mine.yaml', expected a file beside the scenario or an absolute path"
    ]
    text = gpu_text(OWN).replace("4800GB/s", "4800TB/s")
    (tmp_path / "mine.yaml").write_text(text, encoding="utf-8")
    first, *_ = refusal(tmp_path, ("gpu: h200", "gpu: mine.yaml"))
    assert first.startswith("mine.yaml:3:19: memory_bandwidth: 4800TB/s is implausible for one GPU")


def test_a_name_that_is_known_and_not_modelled_is_refused_with_the_reason(tmp_path: Path) -> None:
    changes = ("llama-3.1-8b", "Qwen/Qwen3-8B-FP8"), ("gpu: h200", "gpu: h20")
    assert refusal(tmp_path, *changes) == [
        "s.yaml:3:8: model: 'Qwen/Qwen3-8B-FP8' is not in the catalog: it is qwen3-8b with weights of 8 bits, "
        "expected qwen3-8b, and engine.dtype: fp8",
        "s.yaml:4:6: gpu: 'h20' is not in the catalog: NVIDIA publishes no data sheet of it, "
        "expected a file that capsim catalog add-gpu has written from figures of your own",
    ]
