import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from capsim.cost import UNBOUNDED, BatchShape, Chunk, ProfileCost, load_profile
from capsim.errors import BadInput, Fault
from tests.cost.hardware import LLAMA_8B, LLAMA_70B
from tests.cost.profiles import document, write


@pytest.fixture
def cost(tmp_path: Path) -> ProfileCost:
    return ProfileCost(load_profile(write(tmp_path, document())), LLAMA_8B, "bfloat16", "bfloat16", 1)


def test_measured_points_come_back(cost: ProfileCost) -> None:
    tables = document()["tables"]
    for decodes, row in ((8, 1), (64, 2)):
        base = cost.profile.tokens.at(decodes) + cost.profile.sequences.at(decodes) + 5e-4
        for column, context in enumerate(tables["decode_attention"]["context"]):
            expected = base + tables["decode_attention"]["seconds"][row][column]
            assert cost.step(BatchShape((), decodes, decodes * context)) == pytest.approx(expected, rel=1e-12)
    expected = (
        tables["tokens"]["seconds"][2]
        + tables["sequences"]["seconds"][0]
        + tables["prefill_attention"]["seconds"][1][1]
        + 5e-4
    )
    assert cost.step(BatchShape((Chunk(256, 1024),), 0, 0)) == pytest.approx(expected, rel=1e-12)


def test_between_points_it_is_linear(cost: ProfileCost) -> None:
    ends = [cost.step(BatchShape((), 8, 8 * context)) for context in (512, 4096)]
    middle = cost.step(BatchShape((), 8, 8 * (512 + 4096) // 2))
    assert middle == pytest.approx(sum(ends) / 2, rel=1e-12)
    chunk = [cost.profile.prefill_attention.row(new).at(1024) for new in (256, 2048, (256 + 2048) // 2)]
    assert chunk[2] == pytest.approx((chunk[0] + chunk[1]) / 2, rel=1e-12)


def test_outside_the_points_it_extrapolates_and_never_falls(cost: ProfileCost) -> None:
    tokens = cost.profile.tokens
    assert tokens.at(16_384) == pytest.approx(tokens.at(8192) + 8192 * tokens.slopes[-1], rel=1e-12)
    assert cost.step(BatchShape((), 8, 8)) == cost.step(BatchShape((), 8, 8 * 16))
    assert cost.line(BatchShape((), 8, 8 * 16384)).steps == UNBOUNDED
    large = cost.profile.decode_attention.row(512)
    rows = [cost.profile.decode_attention.values[row][3] for row in (2, 3)]
    assert large.values[3] == pytest.approx(rows[1] + (rows[1] - rows[0]) / 192 * 256, rel=1e-12)


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
        "tokens": "measured",
        "sequences": "measured",
        "prefill_attention": "fitted",
        "decode_attention": "measured",
        "host": "assumed",
    }
    assert described["host"].source == "made up for tests"


def _set(path: str, value: object) -> Callable[[dict[str, Any]], None]:
    *parents, last = path.split(".")

    def damage(content: dict[str, Any]) -> None:
        for name in parents:
            content = content[name]
        content[last] = value

    return damage


def _delete(path: str) -> Callable[[dict[str, Any]], None]:
    *parents, last = path.split(".")

    def damage(content: dict[str, Any]) -> None:
        for name in parents:
            content = content[name]
        del content[last]

    return damage


FLAT = [4e-4] * 4
DAMAGES = [
    (_set("schema_version", 2), r"schema_version: is 2, expected 1"),
    (_delete("schema_version"), r"schema_version: is missing, expected 1"),
    (_delete("provenance.licence"), r"provenance\.licence: is missing"),
    (_delete("provenance.model.kv_heads"), r"provenance\.model\.kv_heads: is missing"),
    (_delete("tables.host"), r"tables\.host: is missing"),
    (_delete("tables.tokens.tag"), r"tables\.tokens\.tag: is missing"),
    (_set("tables.tokens.tag", "guessed"), r"tables\.tokens\.tag: 'guessed', expected measured or fitted"),
    (_set("provenance.model.layers", "32"), r"layers: '32', expected a whole number"),
    (_set("provenance.gpu", ""), r"provenance\.gpu: '', expected a text"),
    (_set("tables.token", {}), r"tables\.token: is not a key here, did you mean 'tokens'"),
    (
        _set("tables.tokens.tokens", [1, 16, 16, 20, 30]),
        r"tokens\.tokens: 16 follows 16, expected numbers that inc",
    ),
    (_set("tables.tokens.tokens", [1]), r"expected at least two whole numbers"),
    (_set("tables.tokens.tokens", [1, 2.5]), r"expected at least two whole numbers"),
    (_set("tables.tokens.seconds", [1, 2]), r"2 values, expected 5 values"),
    (
        _set("tables.tokens.seconds", [1, 2, float("nan"), 4, 5]),
        r"seconds: value 2 is .*NaN.*, expected seconds",
    ),
    (_set("tables.tokens.seconds", [1, 2, float("inf"), 4, 5]), r"value 2 is"),
    (_set("tables.tokens.seconds", [1, 2, -1, 4, 5]), r"value 2 is -1"),
    (_set("tables.tokens.seconds", [1, 2, 1.5, 4, 5]), r"value 2 falls from 2 to 1.5"),
    (_set("tables.decode_attention.seconds", [[1, 2, 3, 4], FLAT, FLAT, FLAT]), r"row 1 falls from"),
    (_set("tables.decode_attention.seconds", [[1, 2, 3, 4]]), r"1 rows, expected 4 rows"),
    (_set("tables.decode_attention.seconds", [FLAT, [1], FLAT, FLAT]), r"seconds\[1\]: 1 values, expected 4"),
    (_set("tables.host.seconds", "0.5ms"), r"host\.seconds: '0.5ms', expected seconds"),
    (
        _set("ranges.tokens", [1, 99_999]),
        r"ranges\.tokens: measured from 1 to 99999, expected inside the table, 1 to",
    ),
    (_set("ranges.tokens", [5, 1]), r"ranges\.tokens: \[5, 1\], expected the lowest and the highest count"),
    (_set("tables", []), r"tables: \[\], expected an object"),
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
    content["tables"]["tokens"]["seconds"] = [1]
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
