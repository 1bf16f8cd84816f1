"""The memory table against what real engines printed when they started; see `tests.memory.startups`."""

from dataclasses import replace
from statistics import median

import numpy as np
import pytest

from capsim.catalog import load_model
from capsim.memory.workspace import Workspace
from tests.cost.hardware import GIB
from tests.memory.__main__ import main
from tests.memory.startups import (
    EXPERTS,
    OTHERS,
    PIPELINES,
    PLAIN,
    ROTARY,
    SORTED,
    STARTUPS,
    WINDOWED,
    Startup,
)


def by_source(startup: Startup) -> str:
    return f"{startup.source}-{startup.model.name}"


def line_errors(startup: Startup) -> dict[str, float]:
    """Model - engine, GiB."""
    sizes = startup.printed(startup.fit())
    return {
        "weights": sizes["weights"] - startup.weights,
        "activations": sizes["activations"] - startup.activations,
        "outside PyTorch": sizes["outside PyTorch"] - startup.outside_pytorch,
        "KV cache": sizes["KV cache"] - startup.kv,
    }


def test_settings_alone_give_the_kv_cache_and_the_weights() -> None:
    """Half of the rows within 3 and 1 %, nine of ten within 8 %; a row that is further off than 10 % says why."""
    found = {by_source(startup): startup.errors(startup.fit()) for startup in STARTUPS}
    cache = [abs(errors["KV cache"]) for errors in found.values()]
    weights = [abs(errors["weights"]) for errors in found.values() if "weights" in errors]
    assert median(cache) <= 0.03
    assert np.quantile(cache, 0.9) <= 0.08
    assert median(weights) <= 0.01
    reasons = {by_source(startup): startup.reason for startup in STARTUPS}
    far = {name for name, errors in found.items() if max(map(abs, errors.values())) > 0.1}
    assert [name for name in far if not reasons[name]] == []


def test_rows_that_the_rules_were_not_drawn_from_are_as_near() -> None:
    # A tenth: other GPUs and releases, whose settings are partly defaults; the RTX 4090 misses 0.33 GiB of 5.
    assert max(abs(startup.errors(startup.fit())["KV cache"]) for startup in OTHERS) <= 0.1


@pytest.mark.parametrize("startup", SORTED, ids=by_source)
def test_a_sampler_that_sorts_takes_as_much_as_these_engines_printed(startup: Startup) -> None:
    """Before 0.17, 1,024 sequences take 5 GiB and more, which leaves a 32B model on one GPU a KV cache of 4.45 GiB."""
    errors = line_errors(startup)
    # As for the other logs: a round formula, 0.06 GiB and 1 % of it.
    assert abs(errors["activations"]) <= 0.06 + 0.01 * startup.activations
    assert abs(errors["KV cache"]) <= 0.06


def test_a_sampler_that_sorts_takes_38_bytes_a_logit() -> None:
    """gpt-oss-20b, whose weights no scenario states, printed 7.38 GiB with the largest vocabulary of these logs."""
    model = load_model("gpt-oss-20b")
    size = Workspace.of("0.13.0").sampling_bytes(replace(model, experts=None), 1, 1024, 8192)
    assert model.vocabulary_size == 201088
    # Without its experts, whose buffers these logs do not tell apart; 1 % as above.
    assert size / GIB == pytest.approx(7.38, rel=0.01)


@pytest.mark.parametrize("startup", [row for row in PLAIN + WINDOWED if row.reason != ROTARY], ids=by_source)
def test_the_table_follows_the_engine_line_by_line(startup: Startup) -> None:
    errors = line_errors(startup)
    # The engine pads vocabularies, keeps rotary tables and scales, and rounds each tensor up to 512 bytes.
    assert abs(errors["weights"]) <= 0.005 * startup.weights + 0.03
    # A round formula: 0.06 GiB, and 1 % of it.
    assert abs(errors["activations"]) <= 0.06 + 0.01 * startup.activations
    # NCCL's buffers grow a little with the ranks, and one log (granite) holds 0.21 GiB more than its neighbours.
    assert abs(errors["outside PyTorch"]) <= 0.22
    # All together: 0.4 % of the GPU's memory.
    assert abs(errors["KV cache"]) <= 0.004 * startup.memory


@pytest.mark.parametrize("startup", [row for row in WINDOWED if row.reason == ROTARY], ids=by_source)
def test_the_table_follows_an_engine_that_sees_but_for_its_rotary_tables(startup: Startup) -> None:
    errors = line_errors(startup)
    # Cosines and sines at 16 bits of 131,072 positions in windows, and of 8 times as many where everything is seen.
    tables = 2 * 131072 * startup.model.head_dim * (1 + 8) / GIB
    # As without an encoder.
    assert abs(errors["weights"] + tables) <= 0.005 * startup.weights + 0.03
    assert abs(errors["activations"]) <= 0.06 + 0.01 * startup.activations
    assert abs(errors["KV cache"] - tables) <= 0.004 * startup.memory


@pytest.mark.parametrize("startup", EXPERTS, ids=by_source)
def test_the_table_follows_the_engine_with_experts(startup: Startup) -> None:
    errors = line_errors(startup)
    # As without experts, and with a latent 0.6 %: the engine keeps the projections up from it a second time.
    assert abs(errors["weights"]) <= 0.006 * startup.weights
    assert (
        abs(errors["activations"]) <= 0.2
    )  # few logs, and a rule from how the engine allocates, not from them
    assert abs(errors["KV cache"]) <= 0.004 * startup.memory  # as without experts


@pytest.mark.parametrize("startup", PIPELINES, ids=lambda startup: f"pp{startup.stages}")
def test_the_last_stage_decides_and_gives_the_engines_blocks(startup: Startup) -> None:
    fit = startup.fit()
    weights = next(line for line in fit.lines if line.name == "weights")
    assert "last stage" in weights.note
    # The table is right to 0.4 % of the GPU's memory without a pipeline; here the cache is nearly all of it.
    assert fit.num_gpu_blocks == pytest.approx(startup.blocks, rel=0.005)


@pytest.mark.parametrize("startup", [row for row in PLAIN if row.graphs], ids=by_source)
def test_the_graphs_estimate_is_near_what_was_captured(startup: Startup) -> None:
    estimate = Workspace.of(startup.version).graph_bytes(startup.model.layers) / GIB
    # One line for all ranks: it was drawn through logs of one rank and overstates four by up to this.
    assert abs(estimate - startup.graphs) <= 0.25


def test_the_table_of_errors_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    main()
    printed = capsys.readouterr().out
    assert all(startup.source in printed for startup in STARTUPS)
    assert "KV cache: 55 rows" in printed
