from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from capsim.catalog import load_gpu
from capsim.cli.stated_gpu import STATED
from tests.cli.conftest import SMALL, Capsim

STATEMENT = (
    *("--memory", "96GB", "--memory-bandwidth", "4TB/s", "--link-bandwidth", "450GB/s"),
    *("--rate", "bfloat16=148TFLOP/s", "--rate", "fp8=296TFLOP/s"),
)
SOURCE = "reviews of May 2025"


def test_figures_become_an_entry_that_is_found_by_its_path(capsim: Capsim, tmp_path: Path) -> None:
    printed = capsim("catalog", "add-gpu", "mine", *STATEMENT, "--source", SOURCE, "--alias", "Mine 96GB")
    assert printed.code == 0
    assert "a scenario names it by its path:\n  gpu: mine.yaml\n" in printed.out
    assert printed.out.count(f"{STATED}: {SOURCE}") == 4
    gpu = load_gpu("mine.yaml", tmp_path)
    assert (gpu.name, gpu.memory, gpu.memory_bandwidth) == ("mine", 96 * 10**9, 4e12)
    assert gpu.dense_flops == {"bfloat16": 148e12, "fp8": 296e12}
    assert set(gpu.sources.values()) == {f"{STATED}: {SOURCE}"}
    assert not gpu.link_per_peer


def test_an_entry_is_usable_in_a_scenario_at_once(capsim: Capsim, tmp_path: Path) -> None:
    capsim("catalog", "add-gpu", "mine", *STATEMENT, "--source", SOURCE)
    path = tmp_path / "mine.yaml"
    changes = ("--set", f"gpu={path}", "--set", "step_cost={source: roofline}")
    assert capsim("check", SMALL, *changes).code == 0
    printed = capsim("fit", SMALL, *changes, "--json")
    assert printed.code == 0


def test_what_is_not_stated_is_that_of_another_gpu(capsim: Capsim, tmp_path: Path) -> None:
    link = ("--link-bandwidth", "225GB/s", "--source", "link_bandwidth=9 of 18 links are up")
    printed = capsim("catalog", "add-gpu", "half", "--like", "h200", *link, "--link-per-peer", "--json")
    assert printed.json["file"] == "half.yaml"
    h200, half = load_gpu("h200"), load_gpu("half.yaml", tmp_path)
    sources = {figure: f"as h200: {source}" for figure, source in h200.sources.items()}
    sources["link_bandwidth"] = f"{STATED}: 9 of 18 links are up"
    assert half == replace(h200, name="half", link_bandwidth=225e9, sources=sources, link_per_peer=True)
    assert printed.json["gpu"]["dense_flops"] == dict(h200.dense_flops)
    # An entry of one's own is as good to begin from.
    again = capsim("catalog", "add-gpu", "third", "--like", "half.yaml", *link, "--out", "3.yaml")
    assert again.code == 0
    assert load_gpu("3.yaml", tmp_path).link_per_peer


def test_stated_rates_stand_alone(capsim: Capsim, tmp_path: Path) -> None:
    capsim("catalog", "add-gpu", "slow", "--like", "h200", "--rate", "bfloat16=500TFLOP/s", "--source", "x")
    assert load_gpu("slow.yaml", tmp_path).dense_flops == {"bfloat16": 500e12}


@pytest.mark.parametrize(
    ("arguments", "messages"),
    [
        (
            ("mine", "--memory", "141", "--rate", "bf16=5TFLOP/s", "--rate", "fp8=7"),
            [
                "--memory: '141' has no unit, expected a size such as '80GiB'",
                "--rate: 'bf16' is no dtype, expected DTYPE=RATE, of bfloat16, float16, fp8, fp4, int8, "
                "did you mean 'bfloat16'?",
                "--rate fp8: '7' has no unit, expected a compute rate such as '989.4TFLOP/s'",
                "--source: no source for memory, dense_flops, expected where the figures come from, such as "
                "'data sheet of the vendor, May 2026'",
                "--memory-bandwidth: is missing, expected the figure, or --like with a GPU that has it",
                "--link-bandwidth: is missing, expected the figure, or --like with a GPU that has it",
            ],
        ),
        (
            ("mine", "--like", "h200", "--memory", "141B", "--memory-bandwidth", "4800TB/s", "--source", "x"),
            [
                "--memory: 141B is implausible for one GPU, expected 2GiB to 2TiB",
                "--memory-bandwidth: 4800TB/s is implausible for one GPU, expected 3GB/s to 100TB/s",
                "--rate bfloat16: 0.206 operations for each byte of memory are implausible, expected 5 to 5000",
            ],
        ),
        (
            ("mine", "--like", "h200", "--source", "memory=a sheet"),
            ["--source: memory is not stated, expected --memory"],
        ),
        (
            ("H100", "--like", "h200", "--alias", "mine.yaml"),
            [
                "NAME: 'H100' is in the catalog, as h100-sxm, expected another name",
                "--alias: 'mine.yaml' is no name, expected one that does not end in .yaml",
            ],
        ),
        (
            ("mine", "--like", "H20"),
            [
                "GPU: 'H20' is not in the catalog: NVIDIA publishes no data sheet of it, expected a file that "
                "capsim catalog add-gpu has written from figures of your own"
            ],
        ),
    ],
)
def test_mistakes_are_refused_by_name(
    capsim: Capsim, tmp_path: Path, arguments: tuple[str, ...], messages: list[str]
) -> None:
    printed = capsim("catalog", "add-gpu", *arguments)
    assert printed.code == 2
    assert printed.err.splitlines()[1:] == messages
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_there_is_kept(capsim: Capsim, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("mine", encoding="utf-8")
    printed = capsim("catalog", "add-gpu", "mine", "--like", "h200", "--json")
    assert printed.code == 2
    assert "--out: cannot write mine.yaml: " in printed.err
    assert printed.json["faults"][0]["source"] == "--out"
    assert (tmp_path / "mine.yaml").read_text(encoding="utf-8") == "mine"
