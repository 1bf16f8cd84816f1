"""A raw file's memory rows in the profile that is made of it."""

from dataclasses import replace
from pathlib import Path

from calibrate.microbenchmark.fit import Stated, fit
from calibrate.microbenchmark.raw_file import read_raw
from capsim.catalog import load_gpu
from tests.calibrate.microbenchmark.fake_bench import LIMITS, RANK, FakeBench, run_of

STATED = Stated("a test", "CC0-1.0", load_gpu("h200"), 0.0, "assumed", "The host was not measured.")
SIZE = 1 << 20
"""Of every memory case of that device."""


def test_what_a_run_measured_of_a_gpu_is_in_the_profile(tmp_path: Path) -> None:
    out = tmp_path / "raw.jsonl"
    run_of(FakeBench(graphs=True), out, limits=replace(LIMITS, graphs=True)).measure()
    memory = fit(read_raw(out), RANK.model, STATED).draft.profile().memory
    assert memory is not None
    assert {name: figure.bytes for name, figure in memory.figures.items()} == dict.fromkeys(
        ("total", "weights", "non_torch", "graphs"), SIZE
    )
    assert {(figure.tag, figure.source) for figure in memory.figures.values()} == {("measured", "run")}
    assert memory.activations is not None
    assert memory.activations.tokens[-1] == LIMITS.max_num_batched_tokens
    assert set(memory.activations.sequences) == {LIMITS.max_num_seqs}


def test_weights_and_graphs_of_fewer_layers_than_the_model_has_are_left_out(tmp_path: Path) -> None:
    out = tmp_path / "raw.jsonl"
    run_of(FakeBench(graphs=True), out, limits=replace(LIMITS, graphs=True, layers=3)).measure()
    memory = fit(read_raw(out), RANK.model, STATED).draft.profile().memory
    assert memory is not None
    assert set(memory.figures) == {"total", "non_torch"}


def test_a_cpu_has_no_memory_of_its_own(tmp_path: Path) -> None:
    out = tmp_path / "raw.jsonl"
    run_of(FakeBench(), out).measure()
    assert fit(read_raw(out), RANK.model, STATED).draft.profile().memory is None
