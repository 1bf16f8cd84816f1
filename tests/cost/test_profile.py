import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from capsim.cost import UNBOUNDED, BatchShape, Chunk, ProfileCost, load_profile
from capsim.cost.step import grown
from capsim.errors import BadInput, Fault
from tests.cost.hardware import LLAMA_8B, LLAMA_70B
from tests.cost.profiles import SKEW, document, mixed, write


@pytest.fixture
def cost(tmp_path: Path) -> ProfileCost:
    return ProfileCost(load_profile(write(tmp_path, document())), LLAMA_8B, "bfloat16", "bfloat16", 1)


def test_measured_points_come_back(cost: ProfileCost) -> None:
    content = document()
    operators, attention = content["operators"], content["attention"]
    for decodes, row in ((16, None), (8, 1), (64, 2)):
        base = sum(cost.parts(BatchShape((), decodes, 16 * decodes)).values())
        if row is None:
            continue
        base -= 32 * attention["decode"]["seconds"][row][0]
        for column, context in enumerate(attention["decode"]["context"]):
            expected = base + 32 * attention["decode"]["seconds"][row][column]
            assert cost.step(BatchShape((), decodes, decodes * context)) == pytest.approx(expected, rel=1e-12)
    expected = (
        32 * operators[0]["seconds"][2]
        + 64 * operators[1]["seconds"][2]
        + operators[2]["seconds"][0]
        + 32 * attention["prefill"]["seconds"][1][1]
        + 5e-4
    )
    assert cost.step(BatchShape((Chunk(256, 1024),), 0, 0)) == pytest.approx(expected, rel=1e-12)


def test_parts_add_up_to_the_step(cost: ProfileCost) -> None:
    batch = BatchShape((Chunk(256, 1024), Chunk(3, 0)), 8, 8000)
    parts = cost.parts(batch)
    assert list(parts) == ["qkv_proj", "norm", "lm_head", "host", "attention"]
    assert sum(parts.values()) == pytest.approx(cost.step(batch), rel=1e-12)
    assert parts["qkv_proj"] == pytest.approx(cost.profile.operators[0].at(256 + 3 + 8), rel=1e-12)
    assert parts["lm_head"] == pytest.approx(cost.profile.operators[2].at(10), rel=1e-12)


def test_between_points_it_is_linear(cost: ProfileCost) -> None:
    ends = [cost.step(BatchShape((), 8, 8 * context)) for context in (512, 4096)]
    middle = cost.step(BatchShape((), 8, 8 * (512 + 4096) // 2))
    assert middle == pytest.approx(sum(ends) / 2, rel=1e-12)
    prefill = cost.profile.attention.prefill
    chunk = [prefill.row(new).at(1024) for new in (256, 2048, (256 + 2048) // 2)]
    assert chunk[2] == pytest.approx((chunk[0] + chunk[1]) / 2, rel=1e-12)


def test_outside_the_points_it_extrapolates_and_never_falls(cost: ProfileCost) -> None:
    tokens = cost.profile.operators[0].seconds
    assert tokens.at(16_384) == pytest.approx(tokens.at(8192) + 8192 * tokens.slopes[-1], rel=1e-12)
    assert cost.step(BatchShape((), 8, 8)) == cost.step(BatchShape((), 8, 8 * 16))
    assert cost.line(BatchShape((), 8, 8 * 16384)).steps == UNBOUNDED
    decode = cost.profile.attention.decode
    large = decode.row(512)
    rows = [decode.values[row][3] for row in (2, 3)]
    assert large.values[3] == pytest.approx(rows[1] + (rows[1] - rows[0]) / 192 * 256, rel=1e-12)


def changed(tmp_path: Path, change: Callable[[dict[str, Any]], None]) -> ProfileCost:
    content = document()
    change(content)
    return ProfileCost(load_profile(write(tmp_path, content)), LLAMA_8B, "bfloat16", "bfloat16", 1)


def test_alignment_cliffs_are_kept_apart(tmp_path: Path) -> None:
    """A line through the odd points would price an aligned batch at twice its time."""

    def cliff(content: dict[str, Any]) -> None:
        content["operators"][0] |= {
            "counts": [1, 513, 8193],
            "seconds": [1e-4, 113.1e-6, 2e-3],
            "aligned": {"multiple": 8, "counts": [8, 512, 8192], "seconds": [5e-5, 55.9e-6, 1e-3]},
        }
        content["ranges"]["tokens"] = [1, 8192]

    cost = changed(tmp_path, cliff)
    time = {
        n: cost.parts(BatchShape((Chunk(n, 0),), 0, 0))["qkv_proj"] / 32 for n in (511, 512, 513, 520, 521)
    }
    assert time[512] == pytest.approx(55.9e-6)
    assert time[513] == pytest.approx(113.1e-6)
    assert time[520] < 60e-6
    assert 110e-6 < time[511] < time[521]


def test_batches_are_padded_to_captured_graphs(tmp_path: Path) -> None:
    cost = changed(tmp_path, lambda content: content.update(graph_sizes=[1, 2, 4, 8, 64, 512]))
    plain = changed(tmp_path, dict)

    def tokens(cost: ProfileCost, count: int) -> float:
        return cost.parts(BatchShape((), count, 100 * count))["norm"]

    assert tokens(cost, 9) == tokens(cost, 64) == tokens(plain, 64) > tokens(plain, 9)
    assert tokens(cost, 513) == tokens(plain, 513)  # beyond the largest graph a batch is not padded
    assert cost.parts(BatchShape((), 9, 900))["lm_head"] == plain.parts(BatchShape((), 9, 900))["lm_head"]


def test_mixed_batches_take_as_long_as_measured(tmp_path: Path) -> None:
    cost = changed(tmp_path, lambda content: content["attention"].update(mixed=mixed(1.4)))
    plain = changed(tmp_path, dict)
    for chunks, decodes, context in (
        ((Chunk(256, 1024),), 8, 8 * 512),  # on the grid
        ((Chunk(700, 3000),), 20, 20 * 1000),  # between
        ((Chunk(9000, 0),), 300, 300 * 20_000),  # outside: the nearest ratio
        ((Chunk(256, 0), Chunk(100, 50)), 8, 8 * 700),  # several chunks: one of their mean past
    ):
        batch = BatchShape(chunks, decodes, context)
        apart = plain.parts(batch)["attention"]
        assert cost.parts(batch)["attention"] == pytest.approx(1.4 * apart, rel=1e-9)
    for alone in (BatchShape((Chunk(256, 0),), 0, 0), BatchShape((), 8, 4096)):
        assert cost.step(alone) == plain.step(alone)


def test_unequal_decodes_cost_more(tmp_path: Path) -> None:
    """By hand: 64 decodes of mean 1,000, the longest 2,000: alpha 0.25 of the way to all of them at 2,000."""
    cost = changed(tmp_path, lambda content: content["attention"].update(skew=SKEW))
    plain = changed(tmp_path, dict)
    assert cost.needs_spread
    assert not plain.needs_spread

    def attention(cost: ProfileCost, mean: int, largest: int) -> float:
        return cost.parts(BatchShape((), 64, 64 * mean, largest_context=largest))["attention"]

    expected = 0.75 * attention(plain, 1000, 1000) + 0.25 * attention(plain, 2000, 2000)
    assert attention(cost, 1000, 2000) == pytest.approx(expected, rel=1e-12)
    assert attention(cost, 1000, 1400) == attention(plain, 1000, 1000)  # below the first edge that costs
    assert attention(cost, 1000, 1000) == attention(plain, 1000, 1000)


def test_beside_a_chunk_unequal_decodes_have_shares_of_their_own(tmp_path: Path) -> None:
    """By hand: 64 decodes of mean 1,000, the longest 2,000, beside a chunk: alpha 1.5 of the way; alone 0.25."""
    beside = {**SKEW, "alpha": [[0.0, 0.0, 0.0], [0.0, 1.5, 3.0]]}
    plain = changed(tmp_path, dict)
    batch = BatchShape((Chunk(256, 0),), 64, 64 * 1000, largest_context=2000)
    alone = batch._replace(chunks=())
    equal, longest = (
        plain.parts(BatchShape((), 64, 64 * context, largest_context=context))["attention"]
        for context in (1000, 2000)
    )

    def more(cost: ProfileCost, batch: BatchShape) -> float:
        return cost.step(batch) - plain.step(batch)

    both = changed(tmp_path, lambda content: content["attention"].update(skew=SKEW, mixed_skew=beside))
    assert more(both, batch) == pytest.approx(1.5 * (longest - equal), rel=1e-9)
    assert more(both, alone) == pytest.approx(0.25 * (longest - equal), rel=1e-9)
    one = changed(tmp_path, lambda content: content["attention"].update(skew=SKEW))
    assert more(one, batch) == pytest.approx(more(one, alone), rel=1e-9)  # where nothing else is known
    other = changed(tmp_path, lambda content: content["attention"].update(mixed_skew=beside))
    assert (more(other, batch), more(other, alone)) == (more(both, batch), 0)
    assert other.needs_spread


@pytest.mark.parametrize("largest", [1000, 1400, 1500, 1501, 2000, 3000, 3001, 9000, 40_000])
def test_lines_of_unequal_decodes_are_exact(tmp_path: Path, largest: int) -> None:
    """Each step of a line is the step of the grown batch, across the edges of the ratio and of the contexts."""
    cost = changed(tmp_path, lambda content: content["attention"].update(skew=SKEW))
    batch = BatchShape((), 33, 33 * 1000, largest_context=largest)
    done = 0
    while done < 5000:
        line = cost.line(batch)
        for step in {0, 1, line.steps // 2, min(line.steps, 10_000) - 1}:
            if step < line.steps:
                exact = cost.step(grown(batch, step))
                assert line.first + step * line.slope == pytest.approx(exact, rel=1e-12)
        assert line.first == cost.step(batch)
        taken = min(line.steps, 5000)
        batch, done = grown(batch, taken), done + taken


def test_lines_end_at_the_measured_contexts(cost: ProfileCost) -> None:
    line = cost.line(BatchShape((), 8, 8 * 500))
    assert line.steps == 512 - 500 + 1
    assert cost.line(BatchShape((), 8, 8 * 512)).steps == 4096 - 512 + 1
    assert cost.line(BatchShape((), 8, 8 * 3)).steps == 16 - 3 + 1


def test_steps_outside_the_measured_range_are_told(cost: ProfileCost) -> None:
    inside = {"prefill_tokens": 512, "chunks": 1, "chunk_past": 0, "decodes": 8, "context": 8 * 1000}
    cases = [
        inside,
        {**inside, "prefill_tokens": 8190, "decodes": 8},
        {**inside, "chunks": 0, "prefill_tokens": 0, "chunk_past": 99_999},
        {**inside, "chunk_past": 9000},
        {**inside, "decodes": 300, "context": 300_000},
        {**inside, "context": 8 * 5000},
        {**inside, "context": 8 * 15},
        {**inside, "decodes": 0, "context": 0},
    ]
    columns = {name: np.array([case[name] for case in cases]) for name in inside}
    assert cost.outside(**columns).tolist() == [False, True, False, True, True, True, True, False]


def test_a_profile_of_something_else_is_refused_naming_both(tmp_path: Path) -> None:
    profile = load_profile(write(tmp_path, document()))
    with pytest.raises(BadInput) as caught:
        ProfileCost(profile, LLAMA_70B, "fp8", "bfloat16", 4)
    keys = [fault.key for fault in caught.value.faults if isinstance(fault, Fault)]
    assert keys == [
        "provenance.model.layers",
        "provenance.model.hidden_size",
        "provenance.model.intermediate_size",
        "provenance.model.attention_heads",
        "provenance.dtype",
        "provenance.tensor_parallel_size",
    ]
    message = "the profile of llama-3.1-8b holds for 32, the scenario asks for 80 (llama-3.3-70b)"
    assert message in str(caught.value)


def test_parts_keep_their_tags(cost: ProfileCost) -> None:
    described = cost.describe()
    assert {name: factor.tag for name, factor in described.items()} == {
        "qkv_proj": "measured",
        "norm": "assumed",
        "lm_head": "measured",
        "prefill_attention": "fitted",
        "decode_attention": "measured",
        "host": "assumed",
    }
    assert described["host"].source == "made up for tests"


def _set(path: str, value: object) -> Callable[[dict[str, Any]], None]:
    *parents, last = path.split(".")

    def damage(content: dict[str, Any]) -> None:
        for name in parents:
            content = content[int(name) if name.isdigit() else name]
        content[last] = value

    return damage


def _delete(path: str) -> Callable[[dict[str, Any]], None]:
    *parents, last = path.split(".")

    def damage(content: dict[str, Any]) -> None:
        for name in parents:
            content = content[int(name) if name.isdigit() else name]
        del content[last]

    return damage


FLAT = [4e-4] * 4
HELD_OUT = {"regime": "decode", "size": "small", "cases": 9, "median": 0.01, "p90": 0.02, "bias": -0.01}
OPERATOR = "operators.0"
DECODE = "attention.decode"
DAMAGES = [
    (_set("schema_version", 2), r"schema_version: is 2, expected 1"),
    (_delete("schema_version"), r"schema_version: is missing, expected 1"),
    (_delete("provenance.licence"), r"provenance\.licence: is missing"),
    (_delete("provenance.model.kv_heads"), r"provenance\.model\.kv_heads: is missing"),
    (_set("provenance.files", [{"name": "a.csv"}]), r"provenance\.files\[0\]\.sha256: is missing"),
    (_delete("host"), r"host: is missing"),
    (_delete(f"{OPERATOR}.tag"), r"operators\[0\]\.tag: is missing"),
    (_set(f"{OPERATOR}.tag", "guessed"), r"operators\[0\]\.tag: 'guessed', expected measured or fitted"),
    (_set(f"{OPERATOR}.per", "token"), r"operators\[0\]\.per: 'token', expected tokens or sequences"),
    (_set(f"{OPERATOR}.times", 0), r"operators\[0\]\.times: 0, expected a whole number of at least 1"),
    (_set("provenance.model.layers", "32"), r"layers: '32', expected a whole number"),
    (_set("provenance.gpu", ""), r"provenance\.gpu: '', expected a text"),
    (_set("attentions", {}), r"attentions: is not a key here, did you mean 'attention'"),
    (_set(f"{OPERATOR}.counts", [1, 16, 16, 20, 30]), r"counts: 16 follows 16, expected numbers that inc"),
    (_set(f"{OPERATOR}.counts", [1]), r"expected at least 2 whole numbers"),
    (_set(f"{OPERATOR}.counts", [1, 2.5]), r"expected at least 2 whole numbers"),
    (_set(f"{OPERATOR}.seconds", [1, 2]), r"2 values, expected 5 values"),
    (_set(f"{OPERATOR}.seconds", [1, 2, float("nan"), 4, 5]), r"value 2 is .*NaN.*, expected seconds"),
    (_set(f"{OPERATOR}.seconds", [1, 2, float("inf"), 4, 5]), r"value 2 is"),
    (_set(f"{OPERATOR}.seconds", [1, 2, -1, 4, 5]), r"value 2 is -1"),
    (_set(f"{OPERATOR}.seconds", [1, 2, 1.5, 4, 5]), r"value 2 falls from 2 to 1.5"),
    (
        _set(f"{OPERATOR}.aligned", {"multiple": 8, "counts": [8, 16], "seconds": [2, 1]}),
        r"operators\[0\]\.aligned\.seconds: value 1 falls",
    ),
    (_set("operators", []), r"operators: \[\], expected a list of at least 1"),
    (_set(f"{DECODE}.seconds", [[1, 2, 3, 4], FLAT, FLAT, FLAT]), r"row 1 falls from"),
    (_set(f"{DECODE}.seconds", [[1, 2, 3, 4]]), r"1 rows, expected 4 rows"),
    (_set(f"{DECODE}.seconds", [FLAT, [1], FLAT, FLAT]), r"seconds\[1\]: 1 values, expected 4"),
    (_set("attention.mixed", {**mixed(1.2), "seconds": [[1]]}), r"attention\.mixed\.seconds: .*a list of 4"),
    (_set("attention.skew", {**SKEW, "ratio": [1.5, 2, 3]}), r"skew\.ratio: .*numbers that increase from 1"),
    (
        _set("attention.skew", {**SKEW, "alpha": [[0, 0, 0], [0, 0, 2]]}),
        r"alpha\[1\]: .*3 shares from 0 to 1",
    ),
    (
        _set("attention.mixed_skew", {**SKEW, "alpha": [[0, 0, 0], [0, 0, -2]]}),
        r"mixed_skew\.alpha\[1\]: .*3 shares not negative",
    ),
    (_set("graph_sizes", [8, 4]), r"graph_sizes: 4 follows 8"),
    (
        _set("held_out", [{**HELD_OUT, "size": "huge"}]),
        r"held_out\[0\]\.size: 'huge', expected small or large",
    ),
    (_set("host.seconds", "0.5ms"), r"host\.seconds: '0.5ms', expected seconds"),
    (
        _set("ranges.tokens", [1, 99_999]),
        r"ranges\.tokens: measured from 1 to 99999, expected inside the table, 1 to",
    ),
    (_set("ranges.tokens", [5, 1]), r"ranges\.tokens: \[5, 1\], expected the lowest and the highest count"),
    (_set("attention", []), r"attention: \[\], expected an object"),
]


@pytest.mark.parametrize(("damage", "message"), DAMAGES)
def test_damage_is_refused_with_file_line_and_key(
    tmp_path: Path, damage: Callable[[dict[str, Any]], None], message: str
) -> None:
    content = copy.deepcopy(document())
    damage(content)
    path = write(tmp_path, content)
    with pytest.raises(BadInput, match=message) as caught:
        load_profile(path)
    assert len(caught.value.faults) == 1
    assert str(caught.value).startswith(f"{path}:")


def test_every_fault_is_told_at_once(tmp_path: Path) -> None:
    content = document()
    del content["provenance"]["licence"]
    content["operators"][0]["seconds"] = [1]
    content["ranges"]["past"] = "all"
    with pytest.raises(BadInput) as caught:
        load_profile(write(tmp_path, content))
    assert len(caught.value.faults) == 3


def test_broken_syntax_is_told_with_line_and_column(tmp_path: Path) -> None:
    path = tmp_path / "profile.json"
    path.write_text(json.dumps(document(), indent=1)[:700])
    with pytest.raises(BadInput) as caught:
        load_profile(path)
    fault = caught.value.faults[0]
    assert isinstance(fault, Fault)
    assert fault.line is not None
    assert fault.line > 1


def test_a_key_stated_twice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "profile.json"
    path.write_text(json.dumps(document()).replace('"engine":', '"engine": "sglang", "engine":'))
    with pytest.raises(BadInput, match="duplicate key"):
        load_profile(path)


def test_a_git_lfs_pointer_is_recognised(tmp_path: Path) -> None:
    path = tmp_path / "profile.json"
    path.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n")
    with pytest.raises(BadInput, match="is a Git LFS pointer"):
        load_profile(path)


def test_a_file_that_is_not_there_is_bad_input(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"nowhere\.json"):
        load_profile(tmp_path / "nowhere.json")
