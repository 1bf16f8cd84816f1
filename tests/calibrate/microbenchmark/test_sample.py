"""The raw file in the repository, measured on a CPU, gives a profile as good as is aimed at."""

from __future__ import annotations

import contextlib
import io
import json
from typing import Any

import pytest

from calibrate.command import calibrate
from calibrate.microbenchmark.coverage import Coverage
from calibrate.microbenchmark.raw_file import read_raw
from calibrate.microbenchmark.scatter import AIMED_ERROR
from calibrate.regime import REGIMES
from capsim.catalog import load_model
from tests.docs.page import ROOT

RAW = ROOT / "tests" / "calibrate" / "samples" / "microbenchmark" / "raw.jsonl"
MODEL = ROOT / "configs" / "benchmarks" / "tinyllama.yaml"


@pytest.fixture(scope="module")
def answer(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What ``capsim calibrate fit`` says of it."""
    out = tmp_path_factory.mktemp("fitted") / "profile.json"
    words = ["fit", str(RAW), "--model", str(MODEL), "--gpu", "cpu-core", "--out", str(out), "--json"]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        calibrate.main(words, standalone_mode=False)
    found: dict[str, Any] = json.loads(printed.getvalue())
    return found


def test_it_is_whole() -> None:
    raw = read_raw(RAW)
    assert raw.head.machine.device == "cpu"
    assert Coverage.of(raw, raw.plan(load_model(str(MODEL)))).whole


def test_whole_steps_are_predicted_within_what_is_aimed_at(answer: dict[str, Any]) -> None:
    assert {each["regime"] for each in answer["steps"]} == set(REGIMES)
    assert all(each["p90"] < AIMED_ERROR for each in answer["steps"])
    assert not answer["warnings"]


def test_no_kind_of_step_is_farther_off_than_its_repeats(answer: dict[str, Any]) -> None:
    again = {each["regime"]: each["again"] for each in answer["repeats"]}
    assert all(each["median"] <= again[each["regime"]] for each in answer["steps"])
