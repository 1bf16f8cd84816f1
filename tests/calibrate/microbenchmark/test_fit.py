"""Tables of a device whose seconds follow a law are that law's, and say how far they are off."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from calibrate.microbenchmark.axes import DENSITIES
from calibrate.microbenchmark.bench import NotPossible, OutOfMemory
from calibrate.microbenchmark.case import ATTENTION, COMMUNICATION, OPERATOR, STEP, Case
from calibrate.microbenchmark.fit import Fitted, Stated, fit
from calibrate.microbenchmark.raw_file import Head, Writer, read_raw
from calibrate.microbenchmark.run import Run
from calibrate.microbenchmark.runner import OUT_OF_MEMORY
from capsim.catalog import load_gpu
from capsim.cost import BatchShape, ProfileCost
from capsim.errors import BadInput
from tests.calibrate.microbenchmark.fake_bench import GAP, LIMITS, RANK, FakeBench, run_of

STATED = Stated("a test", "CC0-1.0", None, 0.0, "assumed", "The host was not measured.")


def fitted(bench: FakeBench, folder: Path, density: int = 0) -> Fitted:
    out = folder / "raw.jsonl"
    run = run_of(bench, out)
    run = replace(run, plan=replace(run.plan, density=DENSITIES[density]))
    run = replace(run, head=replace(run.head, plan=run.plan.members()))
    run.measure()
    return fit(read_raw(out), RANK.model, STATED)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Fitted:
    """Of the law as it is."""
    return fitted(FakeBench(), tmp_path_factory.mktemp("plain"))


def cost(found: Fitted) -> ProfileCost:
    stated = found.draft.provenance
    return ProfileCost(found.draft.profile(), stated.model, stated.dtype, stated.kv_dtype, 1)


def test_whole_steps_that_it_never_saw_are_predicted(plain: Fitted) -> None:
    """Linear tables of pairs and of the longer of two lines are off by some per cent between their counts."""
    assert {each.regime for each in plain.steps} == {"prefill", "decode", "mixed"}
    for each in plain.steps:
        assert each.median < 0.05
        assert each.p90 < 0.10
    assert plain.draft.held_out == plain.steps


def test_random_steps_have_no_part_in_the_tables(plain: Fitted, tmp_path: Path) -> None:
    def doubled(case: Case) -> float:
        return 2.0 if (case.kind, case.name) == (STEP, "random") else 1.0

    other = fitted(FakeBench(scales=doubled), tmp_path)
    assert plain.draft.operators == other.draft.operators
    assert np.array_equal(plain.draft.attention.decode.values, other.draft.attention.decode.values)
    assert all(each.bias < -0.4 for each in other.steps)


def test_gaps_are_what_a_step_takes_beyond_its_operators(plain: Fitted) -> None:
    (gaps,) = [operator for operator in plain.draft.operators if operator.name == "gaps"]
    assert gaps.times == 6
    assert gaps.tag == "fitted"
    # Element-wise operators are known at every fourth count only, and the curve is made not to fall.
    assert gaps.curve.seconds[0] == pytest.approx(GAP, rel=0.1)


def test_the_scaled_sum_is_told_without_the_gaps(plain: Fitted) -> None:
    small = next(each for each in plain.scaled if (each.regime, each.size) == ("decode", "small"))
    assert small.bias < 0


def test_operators_are_measured_and_scaled_by_layers(plain: Fitted, tmp_path: Path) -> None:
    operators = {each.name: each for each in plain.draft.operators}
    assert operators["qkv_proj"].times == 6
    assert operators["norm"].times == 13
    assert operators["lm_head"].times == 1
    assert {each.tag for name, each in operators.items() if name != "gaps"} == {"measured"}
    bench = FakeBench()
    bench.plan = run_of(bench, tmp_path / "none.jsonl").plan
    at = dict(zip(operators["qkv_proj"].curve.counts, operators["qkv_proj"].curve.seconds, strict=True))
    assert at[64] == pytest.approx(bench.kernel(Case(OPERATOR, "qkv_proj", 64)), rel=1e-5)


def test_ranges_are_what_was_measured(plain: Fitted) -> None:
    ranges = plain.draft.ranges
    assert ranges["tokens"] == (1, 256)
    assert ranges["sequences"] == (1, 32)
    assert ranges["decodes"] == (1, 32)
    assert ranges["context"] == (63, 1024)
    assert ranges["new"] == (1, 256)


def test_shapes_out_of_memory_follow_from_others(tmp_path: Path) -> None:
    """Whatever the memory does not hold is filled, and said."""

    def full(case: Case) -> None:
        if case.kind == ATTENTION and case.shape.kv_tokens > 8000:
            raise OutOfMemory

    found = fitted(FakeBench(fails=full), tmp_path)
    assert found.failures[OUT_OF_MEMORY] > 0
    assert found.draft.attention.decode.tag == "fitted"
    assert any("follow from others by tokens read" in note for note in found.draft.provenance.notes)
    far = BatchShape((), 32, 32 * 1023, squared_context=32 * 1023**2, largest_context=1023)
    near = BatchShape((), 32, 32 * 127, squared_context=32 * 127**2, largest_context=127)
    attention = cost(found).parts(far)["attention"] / cost(found).parts(near)["attention"]
    assert attention == pytest.approx(1023 / 127, rel=0.05)


def test_a_cliff_keeps_aligned_counts_apart(tmp_path: Path) -> None:
    def cliff(case: Case) -> float:
        product = case.kind == OPERATOR and case.name in ("qkv_proj", "gate_up_proj", "down_proj", "o_proj")
        return 2.0 if product and case.count > 8 and case.count % 8 else 1.0

    operators = {each.name: each for each in fitted(FakeBench(scales=cliff), tmp_path).draft.operators}
    assert operators["gate_up_proj"].multiple == 8
    assert operators["norm"].multiple == 0
    assert all(count % 8 for count in operators["gate_up_proj"].curve.counts[:-1])


def test_without_a_cliff_there_is_one_curve(plain: Fitted) -> None:
    assert all(each.aligned is None for each in plain.draft.operators)


def test_unequal_lengths_that_cost_no_more_have_no_alpha(plain: Fitted) -> None:
    skew = plain.draft.attention.skew
    assert skew is not None
    assert float(skew.values.max()) < 0.05


def test_unequal_lengths_that_cost_as_the_longest_have_alpha_1(tmp_path: Path) -> None:
    def longest(case: Case) -> float:
        if (case.kind, case.name) != (ATTENTION, "skew"):
            return 1.0
        contexts = case.shape.contexts
        return max(contexts) * len(contexts) / sum(contexts)

    skew = fitted(FakeBench(scales=longest), tmp_path).draft.attention.skew
    assert skew is not None
    # From the ratios that were measured on; the first class is that of equal lengths.
    assert float(skew.values[:, 1:].min()) > 0.9


def test_a_batch_that_takes_longer_together_keeps_its_ratio(plain: Fitted, tmp_path: Path) -> None:
    def together(case: Case) -> float:
        return 2.0 if (case.kind, case.name) == (ATTENTION, "mixed") else 1.0

    slow = fitted(FakeBench(scales=together), tmp_path)
    assert plain.draft.attention.mixed is not None
    assert slow.draft.attention.mixed is not None
    ratio = slow.draft.attention.mixed.values / plain.draft.attention.mixed.values
    assert ratio == pytest.approx(2.0, rel=1e-3)


def test_one_request_alone_is_compared(plain: Fitted) -> None:
    alone = plain.alone
    assert alone is not None
    assert alone.ttft == pytest.approx(alone.measured_ttft, rel=0.05)


def test_rows_above_the_ceiling_are_refused_with_their_lines(tmp_path: Path) -> None:
    def fast(case: Case) -> float:
        return 0.1 if (case.kind, case.name, case.count) == (OPERATOR, "o_proj", 64) else 1.0

    with pytest.raises(BadInput, match=r"raw\.jsonl:\d+:1: operator o_proj 64 takes .* times faster"):
        fitted(FakeBench(scales=fast), tmp_path)


def test_a_file_cut_short_says_to_continue(tmp_path: Path) -> None:
    fitted(FakeBench(), tmp_path)
    path = tmp_path / "raw.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    kept = [line for line in lines if '"name": "prefill"' not in line]
    path.write_text("".join(kept), encoding="utf-8")
    with pytest.raises(BadInput, match="continue the run"):
        fit(read_raw(path), RANK.model, STATED)
    path.write_text("".join(line for line in lines if '"random"' not in line), encoding="utf-8")
    found = fit(read_raw(path), RANK.model, STATED)
    assert any("continue the run" in warning for warning in found.warnings)
    assert found.draft.held_out == found.attention


def test_a_file_cut_off_anywhere_says_how_much_is_there_and_to_continue(tmp_path: Path) -> None:
    path = tmp_path / "raw.jsonl"
    run = run_of(FakeBench(), path, minutes=0.01)
    run.measure()
    lines, cases = path.read_text(encoding="utf-8").splitlines(keepends=True), run.plan.cases()
    for count in range(1, len(lines)):
        path.write_text("".join(lines[:count]), encoding="utf-8")
        raw = read_raw(path)
        done = raw.done
        missing = sum(case not in done for case in cases)
        try:
            warnings = fit(raw, RANK.model, STATED).warnings
        except BadInput as error:
            first = str(error.faults[0])
            assert f"{len(cases) - missing} of {len(cases)} cases are measured, too few" in first
            assert first.endswith("the same `capsim calibrate run` continues the file")
        else:
            told = f"{missing} of {len(cases)} cases were not measured: continue the run for a better fit"
            assert (told in warnings) == (missing > 0)


def test_another_models_file_is_refused(tmp_path: Path) -> None:
    fitted(FakeBench(), tmp_path)
    with pytest.raises(BadInput, match="was measured with hidden_size 512"):
        fit(read_raw(tmp_path / "raw.jsonl"), replace(RANK.model, hidden_size=1024), STATED)


def test_fewer_layers_than_the_model_has_are_scaled(tmp_path: Path) -> None:
    out = tmp_path / "raw.jsonl"
    run_of(FakeBench(), out, limits=replace(LIMITS, layers=2)).measure()
    found = fit(read_raw(out), RANK.model, STATED)
    assert found.layers == 2
    assert found.alone is None
    assert {each.name: each.times for each in found.draft.operators}["qkv_proj"] == 6
    for each in found.steps:
        assert each.median < 0.05
    assert any("through the 2 layers that fit" in note for note in found.draft.provenance.notes)


@pytest.mark.parametrize("density", range(len(DENSITIES)))
def test_every_density_makes_a_profile(tmp_path: Path, density: int) -> None:
    found = fitted(FakeBench(), tmp_path, density)
    assert found.draft.profile().held_out


def test_provenance_has_the_machines_facts(plain: Fitted) -> None:
    stated = plain.draft.provenance
    assert stated.gpu_name == "a law"
    assert (stated.engine, stated.engine_version) == ("torch", "2.13.0")
    assert stated.measured_by == "a test"
    assert stated.licence == "CC0-1.0"
    assert any("Measured on a law" in note for note in stated.notes)
    (file,) = stated.files
    assert file.name == "raw.jsonl"


def test_a_head_can_be_written_by_anybody(tmp_path: Path) -> None:
    out = tmp_path / "raw.jsonl"
    run = run_of(FakeBench(), out)
    with Writer(out) as writer:
        writer.head(run.head)
    assert Head.of(json.loads(out.read_text(encoding="utf-8"))) == run.head


def test_batches_are_padded_to_captured_graphs(tmp_path: Path) -> None:
    """An eager step takes its launches more; the table of both says so."""

    def launched(case: Case) -> float:
        return 1.5 if (case.kind, case.name) == (STEP, "eager") else 1.0

    out = tmp_path / "raw.jsonl"
    bench = FakeBench(graphs=True, scales=launched)
    run_of(bench, out, limits=replace(LIMITS, graphs=True)).measure()
    found = fit(read_raw(out), RANK.model, STATED)
    assert found.draft.graph_sizes == replace(LIMITS, graphs=True).graph_sizes
    for each in found.steps:
        assert each.median < 0.05
    for graph, eager in found.graphs.values():
        assert eager == pytest.approx(1.5 * graph, rel=1e-5)  # the digits of the file


def two_ranks(folder: Path, fails: Callable[[Case], None], gpu: str | None) -> Fitted:
    """The law's device as one of two ranks."""
    rank, out = replace(RANK, ranks=2), folder / "raw.jsonl"
    Run.of(FakeBench(fails=fails), rank, "tiny-llama", LIMITS, 10.0, out).measure()
    return fit(read_raw(out), RANK.model, replace(STATED, gpu=None if gpu is None else load_gpu(gpu)))


def no_links(case: Case) -> None:
    if case.kind == COMMUNICATION:
        raise NotPossible("needs 2 GPUs, and there is 1")


def test_an_all_reduce_is_measured_where_there_are_ranks(tmp_path: Path) -> None:
    found = two_ranks(tmp_path, lambda _: None, None).draft
    (reduce,) = [each for each in found.operators if each.name == "all_reduce"]
    assert (reduce.tag, reduce.times) == ("measured", 12)
    assert found.provenance.tensor_parallel_size == 2


def test_an_all_reduce_is_assumed_from_the_data_sheet_where_there_is_one_gpu(tmp_path: Path) -> None:
    found = two_ranks(tmp_path, no_links, "h200").draft
    (reduce,) = [each for each in found.operators if each.name == "all_reduce"]
    assert (reduce.tag, reduce.times) == ("assumed", 12)
    assert any("all_reduce was not measured: assumed as a ring" in note for note in found.provenance.notes)


def test_an_all_reduce_without_links_and_data_sheet_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="expected --gpu NAME of the catalog"):
        two_ranks(tmp_path, no_links, None)
