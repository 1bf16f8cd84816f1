"""``capsim calibrate memory``: an engine's lines beside the rules', and a profile that holds them."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from capsim.catalog.data import data_path
from capsim.cli.main import cli
from capsim.cost import load_profile
from capsim.errors import BadInput
from tests.memory.test_startup_log import LOGS

GIB = 1 << 30
LOG = LOGS / "vllm-0.19.log"
PROFILE = "h100-llama-3.1-8b-bf16-tp1.json"
ASKED = ("--model", "llama-3.1-8b", "--gpu", "h100-sxm", "--max-num-seqs", "1024")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["calibrate", "memory", *arguments])


def answer(*arguments: str) -> dict[str, Any]:
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def rows(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {line["name"]: line for line in found["lines"]}


def refused(*arguments: str) -> str:
    """What a command that gets bad input says."""
    error = run(*arguments).exception
    assert isinstance(error, BadInput)
    return str(error)


@pytest.fixture
def profile(tmp_path: Path) -> Path:
    path = tmp_path / "profile.json"
    shutil.copy(data_path("profiles", PROFILE), path)
    return path


def test_the_lines_of_a_log_stand_beside_the_rules() -> None:
    found = rows(answer("--log", str(LOG), *ASKED))
    printed = {
        name: round(line["measured"] / GIB, 2) for name, line in found.items() if line["unit"] == "bytes"
    }
    assert printed == {
        "GPU memory": 79.19,
        "budget": 75.23,
        "weights": 14.99,
        "activations": 1.89,
        "outside PyTorch": 0.25,
        "CUDA graphs, captured": 0.91,
        "not accounted for": -0.01,
        "KV cache": 58.11,
    }
    assert found["KV blocks"]["measured"] == 29751
    for line in found.values():
        if line["counted"] is not None:
            assert line["difference"] == line["counted"] - line["measured"]


def test_the_lines_add_up_to_the_budget() -> None:
    found = rows(answer("--log", str(LOG), *ASKED))
    taken = ("weights", "activations", "outside PyTorch", "not accounted for", "KV cache")
    # The budget is a whole number of bytes, as is each line.
    assert sum(found[name]["measured"] for name in taken) == pytest.approx(found["budget"]["measured"], abs=1)


def test_a_version_that_takes_graphs_from_the_budget_has_a_line_for_its_estimate() -> None:
    log = ("--log", str(LOGS / "vllm-0.28.log"), "--model", "llama-3.1-8b", "--gpu", "h100-sxm")
    found = rows(answer(*log, "--max-num-seqs", "256", "--max-num-batched-tokens", "2048"))
    graphs = [found[f"CUDA graphs, {name}"]["measured"] / GIB for name in ("estimated", "captured")]
    assert graphs == pytest.approx([0.84, 0.91], abs=1e-6)


def test_print_is_the_same_figures() -> None:
    result = run("--log", str(LOG), *ASKED)
    (line,) = (each for each in result.output.splitlines() if each.strip().startswith("weights"))
    assert line.split() == ["weights", "14.99", "14.96", "-0.03"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "one source, expected either --log or --engine"),
        (("--log", str(LOG), "--engine", "vllm"), "one source, expected either --log or --engine"),
        (("--log", str(LOG)), "max_num_seqs: does not tell it, expected --max-num-seqs"),
        (("--log", "none.log", "--max-num-seqs", "8"), "none.log: cannot be read"),
        (
            ("--log", str(LOG), "--max-num-seqs", "1024", "--max-model-len", "4096"),
            "max_model_len: the engine ran with 8192, --max-model-len says 4096",
        ),
    ],
)
def test_what_does_not_agree_is_refused(arguments: tuple[str, ...], message: str) -> None:
    assert message in refused("--model", "llama-3.1-8b", "--gpu", "h100-sxm", *arguments)


def test_a_log_needs_a_gpu_to_count_for() -> None:
    said = refused("--log", str(LOG), "--model", "llama-3.1-8b", "--max-num-seqs", "1024")
    assert "--gpu: nothing to count for" in said


def test_a_log_of_another_model_is_warned_of() -> None:
    result = run("--log", str(LOG), "--model", "qwen3-8b", "--gpu", "h100-sxm", "--max-num-seqs", "1024")
    assert result.exit_code == 0
    assert "warning: the log's engine holds 476,016 tokens" in result.output


def test_a_profile_holds_what_was_measured_and_nothing_else_of_it_changes(profile: Path) -> None:
    before = json.loads(profile.read_text(encoding="utf-8"))
    result = run("--log", str(LOG), *ASKED, "--into", str(profile))
    assert result.output.splitlines()[-1] == f"{profile}: memory written"
    members = json.loads(profile.read_text(encoding="utf-8"))
    section = members.pop("memory")
    assert members == before
    assert section["weights"] == {
        "tag": "measured",
        "source": "log",
        "version": "0.19.0",
        "bytes": round(14.99 * GIB),
    }
    memory = load_profile(profile).memory
    assert memory is not None
    assert memory.activations is not None
    assert (memory.activations.tokens, memory.activations.sequences) == ((8192,), (1024,))
    assert memory.block is not None
    # 131,072 bytes a token; the cache is printed to 0.01 GiB of 58.
    assert memory.block.bytes == pytest.approx(16 * 131072, rel=2e-4)


def test_another_batch_of_the_same_version_adds_a_point(profile: Path, tmp_path: Path) -> None:
    text = LOG.read_text(encoding="utf-8").replace("=8192.", "=2048.").replace("1.89", "1.87")
    smaller = tmp_path / "smaller.log"
    smaller.write_text(text, encoding="utf-8")
    run("--log", str(LOG), *ASKED, "--into", str(profile))
    run("--log", str(smaller), *ASKED, "--into", str(profile))
    memory = load_profile(profile).memory
    assert memory is not None
    assert memory.activations is not None
    assert memory.activations.tokens == (2048, 8192)
    assert memory.activations.bytes == (round(1.87 * GIB), round(1.89 * GIB))


def test_a_profile_of_another_gpu_is_refused_and_left_as_it_is(profile: Path) -> None:
    before = profile.read_bytes()
    said = refused(
        *("--log", str(LOG), "--model", "llama-3.1-8b", "--gpu", "h200", "--max-num-seqs", "1024"),
        *("--into", str(profile)),
    )
    assert "the profile was measured on h100-sxm, the memory on h200" in said
    assert profile.read_bytes() == before


def test_what_a_profile_shows_of_itself_has_its_memory(profile: Path) -> None:
    run("--log", str(LOG), *ASKED, "--into", str(profile))
    shown = CliRunner().invoke(cli, ["calibrate", "show", str(profile)]).output
    (line,) = (each for each in shown.splitlines() if each.strip().startswith("activations, 8,192 tokens"))
    assert line.split()[-4:] == ["1.89GiB", "measured", "log,", "0.19.0"]
