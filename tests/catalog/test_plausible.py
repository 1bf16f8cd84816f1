from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from capsim.catalog import gpu_names, load_gpu
from capsim.catalog.data import data_path
from capsim.catalog.loader import read_gpu
from capsim.catalog.plausible import implausible
from capsim.errors import BadInput

H200 = load_gpu("h200")


@pytest.mark.parametrize("name", gpu_names())
def test_shipped_gpus_are_believed(name: str) -> None:
    assert list(implausible(load_gpu(name))) == []


@pytest.mark.parametrize(
    ("figures", "path", "what"),
    [
        ({"memory": 141}, ("memory",), "141B is implausible for one GPU"),
        ({"memory": 141 * 10**12}, ("memory",), "128.2TiB is implausible for one GPU"),
        ({"memory_bandwidth": 4.8e9 / 8}, ("memory_bandwidth",), "600MB/s is implausible for one GPU"),
        ({"memory_bandwidth": 100.1e12}, ("memory_bandwidth",), "100.1TB/s is implausible for one GPU"),
        ({"link_bandwidth": 450e6}, ("link_bandwidth",), "450MB/s is implausible for one GPU"),
        ({"link_bandwidth": 4.9e12}, ("link_bandwidth",), "4.9TB/s is more than the memory has"),
        ({"dense_flops": {}}, ("dense_flops",), "bfloat16 is missing"),
        ({"dense_flops": {"fp8": 1e15}}, ("dense_flops",), "bfloat16 is missing"),
        (
            {"dense_flops": {"bfloat16": 989e9 / 4}},
            ("dense_flops", "bfloat16"),
            "247.2GFLOP/s is implausible for one GPU",
        ),
        (
            {"dense_flops": {"bfloat16": 989e12, "fp8": 989e12 * 4.1}},
            ("dense_flops", "fp8"),
            "4.055PFLOP/s is 4.1 times the rate of bfloat16",
        ),
        (
            {"dense_flops": {"bfloat16": 989e12, "fp4": 500e12}},
            ("dense_flops", "fp4"),
            "500TFLOP/s is 0.506 times the rate of bfloat16",
        ),
    ],
)
def test_a_slip_of_a_unit_or_of_a_prefix_is_told(
    figures: dict[str, Any], path: tuple[str, ...], what: str
) -> None:
    doubts = list(implausible(replace(H200, **figures)))
    assert (path, what) in [doubt[:2] for doubt in doubts]


def test_rates_go_with_the_bandwidth() -> None:
    (doubt,) = implausible(replace(H200, memory_bandwidth=100e9, link_bandwidth=50e9))
    assert doubt.path == ("dense_flops", "bfloat16")
    assert doubt.what == "9.89e+03 operations for each byte of memory are implausible"


def test_a_file_with_such_a_figure_is_refused_with_its_place(tmp_path: Path) -> None:
    text = data_path("gpus", "h200.yaml").read_text(encoding="utf-8")
    path = tmp_path / "h200.yaml"
    path.write_text(text.replace("memory: 139.80GiB", "memory: 139.80GB").replace("4.8TB/s", "480TB/s", 1))
    with pytest.raises(BadInput) as refusal:
        read_gpu(path)
    assert [str(fault) for fault in refusal.value.faults] == [
        f"{path}:5:19: memory_bandwidth: 480TB/s is implausible for one GPU, expected 3GB/s to 100TB/s",
        f"{path}:7:13: dense_flops.bfloat16: 2.06 operations for each byte of memory are implausible, "
        "expected 5 to 5000",
    ]
