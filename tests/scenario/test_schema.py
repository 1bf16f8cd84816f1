"""The JSON Schema for editors says of a scenario what `load` says, as far as single values go."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from capsim import documents, units
from capsim.catalog.data import data_folder, data_path
from capsim.errors import BadInput
from capsim.scenario import load, resolved
from capsim.scenario.schema import FILE, scenario_schema
from tests.docs.page import ROOT, SavedFile, page_paths, read_page
from tests.scenario.test_faults import ENDS, LINES
from tests.scenario.test_load import MINIMAL

SCHEMA = scenario_schema()
VALIDATOR = Draft202012Validator(SCHEMA)
LINE = "# yaml-language-server: $schema="
SHIPPED = sorted(
    path
    for folder in ("scenarios", "benchmarks", "starters")
    for path in data_folder(folder).glob("*.yaml")
    if "demand:" in path.read_text(encoding="utf-8")
)
EXAMPLES = [
    pytest.param(part, id=f"{path.stem}-{part.name}")
    for path in page_paths()
    for part in read_page(path).parts
    if isinstance(part, SavedFile) and part.name.endswith(".yaml") and "demand:" in part.content
]


def stated(path: Path) -> Any:
    """What a file holds, as plain data."""
    return documents.load(path, faults=[]).data


def refusals(data: Any) -> list[str]:
    return [f"{error.json_path}: {error.message}" for error in VALIDATOR.iter_errors(data)]


def test_it_is_a_schema() -> None:
    Draft202012Validator.check_schema(SCHEMA)


def test_the_shipped_file_is_fresh() -> None:
    shipped = data_path("", FILE).read_text(encoding="utf-8")
    assert json.loads(shipped) == SCHEMA, f"run capsim schema --out configs/{FILE}"


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_a_shipped_scenario_is_accepted_and_names_the_schema(path: Path) -> None:
    assert refusals(stated(path)) == []
    first = path.read_text(encoding="utf-8").splitlines()[0]
    assert first.startswith(LINE)
    assert (path.parent / first.removeprefix(LINE)).resolve() == data_path("", FILE).resolve()


@pytest.mark.parametrize("part", EXAMPLES)
def test_an_example_of_the_documentation_is_judged_as_by_load(part: SavedFile, tmp_path: Path) -> None:
    path = tmp_path / part.name
    path.write_text(part.content, encoding="utf-8")
    (tmp_path / "configs").symlink_to(ROOT / "configs")
    try:
        load(path)
    except BadInput as error:
        if any(told_by_a_value(str(fault)) for fault in error.faults):
            assert refusals(stated(path))
    else:
        assert refusals(stated(path)) == []


OF_ONE_VALUE = (
    ": unknown key",
    ": is missing",
    " V1 engine refuses another",
    " an engine without chunked prefill",
    " has no unit",
    " is a number, expected text",
    " is more than the whole",
    " is negative",
    " is neither true nor false",
    " is no list",
    " is no mapping",
    " is no percentile",
    " is no text",
    " is no version of",
    " is no whole number",
    " is not above 0",
    " is not known",
    " is too small",
    "unit '",
)
"""What is said of a value that is wrong in itself, whatever the others, the catalog or other files hold."""


def told_by_a_value(message: str) -> bool:
    return any(phrase in message for phrase in OF_ONE_VALUE)


def damaged() -> Iterator[tuple[str, str]]:
    """Files with one fault, and what `load` says of it."""
    for line, replacement, message in LINES:
        yield MINIMAL.replace(line, replacement), message
    for end, message in ENDS:
        yield MINIMAL + end + "\n", message


DAMAGED = [
    pytest.param(text, id=message[:60].replace("s.yaml:", ""))
    for text, message in damaged()
    if told_by_a_value(message)
]


@pytest.mark.parametrize("text", DAMAGED)
def test_a_value_of_a_wrong_kind_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(BadInput):
        load(path)
    assert refusals(stated(path))


def test_most_damages_are_told_by_a_value() -> None:
    assert len(DAMAGED) > len(list(damaged())) / 2


def test_every_key_says_what_it_means_and_holds() -> None:
    sections = [SCHEMA, *SCHEMA["$defs"].values()]
    for name, key in ((name, key) for section in sections for name, key in section["properties"].items()):
        assert key["description"], name
        assert {"type", "anyOf", "oneOf", "$ref"} & key.keys(), name


def test_defaults_are_what_the_schema_accepts() -> None:
    for name, section in SCHEMA["$defs"].items():
        for key, held in section["properties"].items():
            if "default" in held:
                validator = Draft202012Validator({"$defs": SCHEMA["$defs"], **held})
                assert validator.is_valid(held["default"]), f"{name}: {key}"


KINDS: dict[Any, tuple[str, ...]] = {
    units.parse_duration: ("ns", "us", "µs", "ms", "s", "min", "h", "d"),
    units.parse_size: ("B", "kB", "GB", "GiB", "TiB"),
    units.parse_bandwidth: ("GB/s", "TB/s", "TB / s"),
    units.parse_rate: ("/s", "/min", "requests/s", "request/h", "tokens/s", "output tokens /s"),
    units.parse_share: ("%",),
}
numerals = st.from_regex(r"[-+]?([0-9]{1,4}\.?[0-9]{0,4}|\.[0-9]{1,4})([eE][-+]?[0-9]{1,3})?", fullmatch=True)


@pytest.mark.parametrize("parse", KINDS, ids=lambda parse: parse.__name__)
@given(data=st.data())
def test_a_quantity_that_is_read_is_accepted(parse: Any, data: st.DataObject) -> None:
    """And one that is not read is refused; that a figure is too large for a float is not seen."""
    text = "".join(
        data.draw(part)
        for part in (
            st.sampled_from(("", " ")),
            numerals,
            st.sampled_from(("", " ")),
            st.sampled_from((*KINDS[parse], "", "S", "kbps")),
            st.sampled_from(("", " ")),
        )
    )
    validator = Draft202012Validator({"type": "string", "pattern": units.pattern(parse)})
    positive = Draft202012Validator({"type": "string", "pattern": units.pattern(parse, positive=True)})
    quantity = read(parse, text)
    if quantity is None:
        assert not validator.is_valid(text)
    else:
        assert validator.is_valid(text)
        assert positive.is_valid(text) or quantity == 0


def read(parse: Any, text: str) -> float | None:
    """The figure, None where there is none."""
    try:
        quantity = parse(text)
    except units.UnitError as error:
        return math.inf if "too large" in error.what else None
    figure: float = quantity.per_second if isinstance(quantity, units.Rate) else quantity
    return figure


durations = st.sampled_from(["1ns", "30us", "250ms", "1.5 s", "2min", "1h", "0.5d", "1e1s"])
shares = st.sampled_from(["5%", "99.9 %", 0.05, 0.5])
counts = st.integers(1, 10**6)
lengths = st.one_of(
    st.fixed_dictionaries({"distribution": st.just("fixed"), "value": counts}),
    st.fixed_dictionaries(
        {"distribution": st.just("uniform"), "low": st.integers(1, 9), "high": st.integers(9, 99)}
    ),
    st.fixed_dictionaries(
        {"distribution": st.just("lognormal"), "mean": st.floats(1, 1e5), "cv": st.floats(0.1, 4)},
        optional={"max": st.integers(10**6, 10**7)},
    ),
    st.fixed_dictionaries({"distribution": st.just("geometric"), "mean": st.integers(1, 4096)}),
)
engines = st.fixed_dictionaries(
    {},
    optional={
        "version": st.sampled_from(["0.19.0", "0.20"]),
        "tensor_parallel_size": st.sampled_from([1, 2, 4, 8]),
        "dtype": st.sampled_from(["bfloat16", "fp8", "int4"]),
        "kv_cache_dtype": st.sampled_from(["auto", "fp8"]),
        "max_model_len": st.integers(1, 131072) | st.none(),
        "max_num_seqs": st.integers(1, 2048),
        "gpu_memory_utilization": shares,
        "num_gpu_blocks": st.integers(2, 10**6),
        "async_scheduling": st.booleans() | st.none(),
        "watermark": shares | st.just(0),
        "kv_offload": st.just([{"name": "host", "capacity": "64GiB", "bandwidth": "25GB/s", "latency": 0}]),
    },
)
step_costs = st.one_of(
    st.none(),
    st.fixed_dictionaries({}, optional={"source": st.just("roofline"), "compute_efficiency": shares}),
    st.fixed_dictionaries({"source": st.just("constant"), "seconds": durations}),
    st.fixed_dictionaries(
        {"source": st.just("linear")}, optional={"base": durations, "per_decode": durations}
    ),
)
gates = st.dictionaries(st.sampled_from(["p50", "p95", "p99.9", "p100", "p0.5"]), durations, min_size=1)
scenarios = st.fixed_dictionaries(
    {
        "version": st.just(1),
        "name": st.text("ab c-", min_size=1).filter(str.strip),
        "model": st.sampled_from(["llama-3.1-8b", "qwen3-32b"]),
        "gpu": st.sampled_from(["h200", "a100-80gb-sxm"]),
        "demand": st.fixed_dictionaries(
            {
                "target": st.sampled_from(["80/s", "4800 / min", "17000 tokens/s", "3 requests/h"]),
                "synthetic": st.fixed_dictionaries({"prompt_tokens": lengths, "output_tokens": lengths}),
            },
            optional={"trace": st.none(), "sampling": st.just({"temperature": 0.7, "n": 2, "stop": None})},
        ),
        "slo": st.fixed_dictionaries(
            {"ttft": gates}, optional={"itl": gates, "error_rate": shares | st.just(0)}
        ),
    },
    optional={
        "engine": st.none() | engines,
        "step_cost": step_costs,
        "fleet": st.none()
        | st.fixed_dictionaries(
            {"replicas": st.integers(2, 9)},
            optional={
                "router": st.sampled_from(["round_robin", "least_outstanding"]),
                "failures": st.just([{"replica": 1, "at": "3s", "down_for": None}]),
            },
        ),
        "plan": st.fixed_dictionaries(
            {}, optional={"reserve": shares | st.just(0), "drills": st.just([]), "duration": durations}
        ),
        "seed": st.integers(0, 9),
    },
)


@settings(max_examples=50, deadline=None)  # each one is a file that is written and read
@given(data=scenarios)
def test_a_sound_scenario_is_accepted_and_so_is_its_record(
    data: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The record has every key, with its default where the file does not state it."""
    path = tmp_path_factory.mktemp("scenario") / "s.json"
    path.write_text(json.dumps(data), encoding="utf-8")
    try:
        record = resolved(load(path))
    except BadInput:
        hypothesis.reject()  # max_num_batched_tokens is less than max_num_seqs
    assert refusals(data) == []
    assert refusals(json.loads(json.dumps(record))) == []
