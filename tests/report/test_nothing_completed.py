"""Runs in which no request gets its tokens, from the command to its exit code."""

from __future__ import annotations

from pathlib import Path

import pytest

from capsim.cli.main import main

SMALL = Path(__file__).parents[1] / "plan" / "small.yaml"


def run(*changes: str) -> int:
    options = [word for change in changes for word in ("--set", change)]
    with pytest.raises(SystemExit) as exit_:
        main(["run", str(SMALL), "--rate", "5/s", "--requests", "50", "--jobs", "1", *options])
    return int(exit_.value.code or 0)


@pytest.mark.parametrize(
    ("changes", "steps"),
    [
        (("fleet.failures=[{replica: 0, at: 1ms}]",), False),
        (
            (
                "fleet.failures=[{replica: 0, at: 4s}]",
                # A step takes 8 ms at least: 500 tokens in the 4 s at most.
                "demand.synthetic.output_tokens={distribution: fixed, value: 600}",
            ),
            True,
        ),
    ],
    ids=["before any step", "in the middle"],
)
def test_a_fleet_that_dies_prints_no_normal_table(
    changes: tuple[str, ...], steps: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    code = run("fleet.max_retries=0", *changes)
    text = capsys.readouterr().out
    assert code == 0  # a run that misses its gates is an answer too
    assert " lost. There is no latency to report" in " ".join(text.split())
    assert "NO REQUEST COMPLETED of" in text
    assert "FAILS ttft p95, tpot p95, error rate in" in " ".join(text.split())
    assert "Latency" not in text
    assert "Throughput" not in text
    assert ("No replica took a step" in " ".join(text.split())) != steps
    assert ("blocks held" in text) == steps


def test_a_demand_of_which_nothing_can_be_served_is_bad_input(capsys: pytest.CaptureFixture[str]) -> None:
    code = run("engine.max_model_len=100", "demand.synthetic.prompt_tokens={distribution: fixed, value: 200}")
    printed = capsys.readouterr()
    assert (code, printed.out) == (2, "")
    assert "no request can be served" in printed.err
