from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from calibrate.check import AGREE, check, compare_profiles, compare_steps
from calibrate.draft import Draft
from calibrate.importers.steps import draft_of
from capsim.errors import BadInput
from tests.calibrate.step_law import (
    REQUEST,
    decode_steps,
    mixed_steps,
    prefill_steps,
    source_of,
)

SAMPLES = Path(__file__).parent / "samples" / "steps"
STEPS = (*decode_steps(), *prefill_steps())


def draft_times(factor: float, *, chunks_only: bool = False) -> Draft:
    """A profile of the law, every step so many times as long."""
    steps = tuple(
        replace(step, seconds=step.seconds * (factor if step.batch.chunks or not chunks_only else 1.0))
        for step in STEPS
    )
    return draft_of(source_of(steps), REQUEST)


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, Draft], Path]:
    def write(name: str, draft: Draft) -> Path:
        draft.write(tmp_path / name)
        return tmp_path / name

    return write


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Run the command and return its stdout; errors pass through."""

    def run(*arguments: object) -> str:
        assert check.main([str(argument) for argument in arguments], standalone_mode=False) is None
        return capsys.readouterr().out

    return run


def test_a_profile_agrees_with_itself() -> None:
    profile = draft_times(1.0).profile()
    comparison = compare_profiles(profile, profile)
    assert comparison.verdict.startswith("AGREE")
    assert set(comparison.relative) == {0.0}
    kinds = {bool(batch.chunks) + 2 * bool(batch.decodes) for batch in comparison.batches}
    assert kinds == {1, 2, 3}


@pytest.mark.parametrize(("factor", "verdict"), [(1 + AGREE / 2, "AGREE"), (1.1, "CLOSE"), (1.5, "DISAGREE")])
def test_the_verdict_follows_the_median_difference(factor: float, verdict: str) -> None:
    comparison = compare_profiles(draft_times(factor).profile(), draft_times(1.0).profile())
    assert comparison.verdict.startswith(verdict)
    # Scaled steps give scaled tables, to the digits that a file keeps.
    assert comparison.relative == pytest.approx([factor - 1] * len(comparison.batches), abs=1e-4)


def test_the_worst_kind_decides_and_is_named(
    run: Callable[..., str], write: Callable[[str, Draft], Path]
) -> None:
    slower = write("slower.json", draft_times(1.4, chunks_only=True))
    answer = json.loads(run(slower, "--against", write("law.json", draft_times(1.0)), "--json"))
    by_kind = {(kind["regime"], kind["size"]): kind for kind in answer["by_kind"]}
    assert "DISAGREE" in answer["verdict"]
    assert "prefill steps" in answer["verdict"]
    assert by_kind["prefill", "large"]["median"] == pytest.approx(0.4, abs=0.02)
    assert by_kind["prefill", "large"]["bias"] > 0
    assert by_kind["decode", "small"]["median"] < 0.1
    assert all("prefill" in shape["shape"] for shape in answer["worst"])
    differences = [abs(shape["difference"]) for shape in answer["worst"]]
    assert differences == sorted(differences, reverse=True)


def test_the_host_is_no_difference() -> None:
    bare = source_of(STEPS, holds_host=False)
    slow = draft_of(bare, replace(REQUEST, host_overhead=0.05)).profile()
    fast = draft_of(bare, replace(REQUEST, host_overhead=0.0)).profile()
    # Both hosts are taken off again, to rounding.
    assert max(map(abs, compare_profiles(slow, fast).relative)) < 1e-12


def test_profiles_of_different_things_are_refused_unless_forced(
    run: Callable[..., str], write: Callable[[str, Draft], Path]
) -> None:
    ours = write("ours.json", draft_times(1.0))
    other = draft_of(source_of(STEPS), replace(REQUEST, kv_dtype="fp8"))
    theirs = write("theirs.json", other)
    with pytest.raises(
        BadInput, match=r"provenance: kv_dtype is bfloat16 here and fp8 in .*theirs.json, expected"
    ):
        run(ours, "--against", theirs)
    text = run(ours, "--against", theirs, "--force")
    assert "compared by force although kv_dtype is bfloat16 here and fp8" in text
    assert text.startswith("AGREE")


def test_profiles_without_a_common_range_have_no_verdict(
    run: Callable[..., str], write: Callable[[str, Draft], Path]
) -> None:
    def part(decodes: tuple[int, ...], contexts: tuple[int, ...], new: tuple[int, ...]) -> Draft:
        return draft_of(source_of((*decode_steps(decodes, contexts), *prefill_steps(new))), REQUEST)

    small = write("small.json", part((1, 2), (128, 256), (64, 128)))
    large = write("large.json", part((32, 64), (4096, 8192), (2048, 4096)))
    assert run(small, "--against", large).startswith("NO VERDICT")


def test_measured_steps_are_compared_as_they_are() -> None:
    profile = draft_times(1.1).profile()
    comparison = compare_steps(profile, source_of((*STEPS, *mixed_steps())))
    assert len(comparison.batches) == len(STEPS) + len(mixed_steps())
    assert comparison.verdict.startswith("CLOSE")


def test_steps_that_hold_less_are_compared_with_less() -> None:
    without = source_of(STEPS, holds_host=False)
    profile = draft_of(without, replace(REQUEST, host_overhead=0.01)).profile()
    comparison = compare_steps(profile, without)
    # Host and lm_head are in the profile, not in the steps.
    assert max(map(abs, comparison.relative)) < 1e-4


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("vllm-bench-forward", "vllm_bench_forward.json"),
        ("dynamo-fpm", "dynamo_fpm.jsonl"),
        ("sglang-one-batch", "sglang_one_batch.jsonl"),
    ],
)
def test_result_files_are_compared_with_a_profile(
    run: Callable[..., str], write: Callable[[str, Draft], Path], name: str, file: str
) -> None:
    text = run(write("law.json", draft_times(1.0)), "--against", SAMPLES / file, "--from", name)
    assert "farthest apart" in text
    assert text.split(":")[0] in {"AGREE", "CLOSE", "DISAGREE"}
