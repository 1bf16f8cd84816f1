from __future__ import annotations

from datetime import date, datetime, timedelta, timezone

import pytest

from capsim.catalog import load_gpu, load_model
from capsim.report.age import age_text
from tests.cli.conftest import Capsim

DAY = ("--on", "2026-11-30")
PROFILE = "rtxpro6000-llama-3.1-8b-bf16-tp1"


def test_a_model_is_shown_with_the_source_of_each_figure(capsim: Capsim) -> None:
    text = capsim("catalog", "show", "Qwen/Qwen3-30B-A3B", *DAY).out
    assert text.startswith("Model qwen3-30b-a3b\n  also Qwen/Qwen3-30B-A3B\n")
    assert all(len(line) <= 100 for line in text.splitlines())
    for words in (
        "experts.per_token          8       num_experts_per_tok",
        "h200-qwen3-30b-a3b-bf16-tp2-ep2",
    ):
        assert words in text
    shown = capsim("catalog", "show", "qwen3-30b-a3b", *DAY, "--json").json
    assert (shown["kind"], shown["name"]) == ("model", "qwen3-30b-a3b")
    assert shown["parameters"] == load_model("qwen3-30b-a3b").parameters
    figures = {figure["name"]: figure for figure in shown["figures"]}
    assert figures["head_dim"]["value"] == "128"
    assert figures["head_dim"]["source"].startswith("head_dim; the heads together")
    assert len(shown["profiles"]) == 3


def test_a_gpu_is_shown_with_the_source_of_each_figure(capsim: Capsim) -> None:
    text = capsim("catalog", "show", "h100", *DAY).out
    assert text.startswith("GPU h100-sxm\n")
    shown = capsim("catalog", "show", "h100", *DAY, "--json").json
    sources = load_gpu("h100").sources
    assert all(figure["source"] == sources[figure["name"].split(".")[0]] for figure in shown["figures"])
    assert {profile["gpu"] for profile in shown["profiles"]} == {"h100-sxm"}
    assert "No profile covers it" in capsim("catalog", "show", "l4", *DAY).out


def test_a_profile_is_shown_with_what_it_covers_and_its_age(capsim: Capsim) -> None:
    text = capsim("catalog", "show", PROFILE, *DAY).out
    assert "llama-3.1-8b (bfloat16 weights, bfloat16 KV) on 1 x rtx-pro-6000" in text
    assert "2026-04-24 (7 months)" in text
    assert "behind       vllm 0.24.0" in text
    shown = capsim("catalog", "show", f"configs/profiles/{PROFILE}.json", *DAY, "--json").json
    assert (shown["kind"], shown["age_days"], shown["behind"]) == ("profile", 220, "0.24.0")
    assert shown["licence"]
    assert shown["attribution"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("lama-3.1-8b", "did you mean 'llama-3.1-8b'?"),
        ("h200-llama-3.1-8b-bf16-tp3", "did you mean 'h200-llama-3.1-8b-bf16-tp"),
        ("GPT-4", "NAME: 'GPT-4' is not in the catalog: its architecture is not published"),
        ("H20", "NAME: 'H20' is not in the catalog: NVIDIA publishes no data sheet of it, expected a file"),
    ],
)
def test_a_name_that_is_not_there_is_refused(capsim: Capsim, name: str, message: str) -> None:
    printed = capsim("catalog", "show", name)
    assert printed.code == 2
    assert message in printed.err


@pytest.mark.parametrize("name", ["gemma-3-27b", "kimi-linear-48b-a3b", "mi300x"])
def test_every_shape_can_be_shown(capsim: Capsim, name: str) -> None:
    printed = capsim("catalog", "show", name, *DAY)
    assert printed.code == 0
    assert all(len(line) <= 100 for line in printed.out.splitlines())


def test_the_list_says_what_each_profile_covers_and_how_old_it_is(capsim: Capsim) -> None:
    text = capsim("catalog", *DAY).out
    row = (
        "    rtxpro6000-llama-3.1-8b-bf16-tp2  bf16     2 x rtx-pro-6000   vllm 0.19.0  2026-04-24  7 months"
    )
    assert row in text.splitlines()
    assert "h200-mixtral-8x7b-bf16-tp2-ep2    bf16     2 x h200 EP " in text
    assert "  The newest vllm that was measured is 0.24.0; behind it are 2 of 0.14.0, 3 of 0.19.0." in text


def test_ages_are_told_of_today_if_no_day_is_given(capsim: Capsim) -> None:
    before = datetime.now(tz=timezone.utc).date()
    listed = capsim("catalog", "--json").json["profiles"]
    after = datetime.now(tz=timezone.utc).date()
    for profile in listed:
        day = date.fromisoformat(profile["date"]) + timedelta(days=profile["age_days"])
        assert before <= day <= after
    assert {profile["behind"] for profile in listed} == {"0.24.0", None}


@pytest.mark.parametrize(
    ("days", "text"),
    [
        (-1, "not yet"),
        (0, "0 days"),
        (1, "1 day"),
        (60, "60 days"),
        (61, "2 months"),
        (101, "3 months"),
        (730, "23 months"),
        (731, "2 years"),
        (1100, "3 years"),
    ],
)
def test_ages_are_in_the_unit_that_suits_them(days: int, text: str) -> None:
    assert age_text(days) == text
