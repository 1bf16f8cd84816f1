"""Scenarios that extend others."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from capsim.errors import BadInput
from capsim.scenario import LengthSettings, ProfileSettings, TraceSettings, load, resolved
from capsim.scenario.schema import scenario_schema
from tests.scenario.test_load import MINIMAL, SHIPPED, faults, written

VALIDATOR = Draft202012Validator(scenario_schema())


def test_mappings_merge_and_everything_else_is_replaced(tmp_path: Path) -> None:
    base = MINIMAL + (
        "engine: {max_num_seqs: 64, block_size: 32}\n"
        "fleet: {replicas: 3, failures: [{replica: 1, at: 1s}, {replica: 2, at: 2s}]}\n"
    )
    written(tmp_path, base, "base.yaml")
    text = (
        "extends: base.yaml\nname: changed\nengine: {max_num_seqs: 128}\n"
        "fleet: {failures: [{replica: 0, at: 3s}]}\nslo: {tpot: {p95: 30ms}}\n"
    )
    scenario = load(written(tmp_path, text))
    assert (scenario.name, scenario.seed) == ("changed", 0)
    assert (scenario.engine.max_num_seqs, scenario.engine.block_size) == (128, 32)
    assert (scenario.fleet.replicas, [f.at for f in scenario.fleet.failures]) == (3, [3.0])
    assert [(gate.metric, gate.limit) for gate in scenario.objectives.latency] == [
        ("ttft", 0.5),
        ("tpot", 0.03),
    ]


def test_the_nearest_file_of_a_chain_wins_and_what_is_set_wins_over_all(tmp_path: Path) -> None:
    written(
        tmp_path, MINIMAL + "seed: 1\nengine: {max_num_seqs: 1, block_size: 1, watermark: 1%}\n", "a.yaml"
    )
    written(tmp_path, "extends: a.yaml\nseed: 2\nengine: {max_num_seqs: 2, block_size: 2}\n", "b.yaml")
    path = written(tmp_path, "extends: b.yaml\nengine: {max_num_seqs: 3}\n", "c.yaml")
    scenario = load(path, ["seed=9"])
    assert (scenario.engine.max_num_seqs, scenario.engine.block_size, scenario.engine.watermark) == (
        3,
        2,
        0.01,
    )
    assert (scenario.seed, load(path).seed) == (9, 2)


def test_null_takes_away_what_the_base_states(tmp_path: Path) -> None:
    written(tmp_path, MINIMAL + "  tpot: {p95: 30ms, p99: 50ms}\nengine: {max_num_seqs: 9}\n", "base.yaml")
    text = "extends: base.yaml\nengine:\nslo: {tpot: {p99: null}}\n"
    scenario = load(written(tmp_path, text))
    assert scenario.engine.max_num_seqs == 256
    assert [(gate.metric, gate.percentile) for gate in scenario.objectives.latency] == [
        ("ttft", 95),
        ("tpot", 95),
    ]
    text = "extends: base.yaml\ndemand: {synthetic: null, trace: {path: azure_conv_2023.csv}}\n"
    assert load(written(tmp_path, text)).demand.synthetic is None


def test_another_distribution_or_source_leaves_nothing_of_the_base_s(tmp_path: Path) -> None:
    written(tmp_path, MINIMAL + "step_cost: {source: linear, base: 8ms}\n", "base.yaml")
    text = (
        "extends: base.yaml\nstep_cost: {source: constant, seconds: 1ms}\n"
        "demand: {synthetic: {prompt_tokens: {distribution: geometric, mean: 9}, output_tokens: {mean: 7}}}\n"
    )
    synthetic = load(written(tmp_path, text)).demand.synthetic
    assert synthetic is not None
    assert synthetic.prompt_tokens == LengthSettings("geometric", mean=9.0)
    assert synthetic.output_tokens == LengthSettings("geometric", mean=7.0)


def test_paths_start_beside_the_file_that_states_them(tmp_path: Path) -> None:
    folder = tmp_path / "bases"
    folder.mkdir()
    (folder / "t.csv").write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n")
    (tmp_path / "p.json").write_text("{}")
    base = MINIMAL.replace("synthetic:", "trace: {path: t.csv}\n  synthetic: null\nx:")
    base = base[: base.index("x:")] + base[base.index("slo:") :]
    written(folder, base, "base.yaml")
    path = written(tmp_path, "extends: bases/base.yaml\nstep_cost: {source: profile, path: p.json}\n")
    scenario = load(path)
    assert scenario.demand.trace == TraceSettings((folder / "t.csv").resolve(), "azure")
    assert scenario.step_cost == ProfileSettings((tmp_path / "p.json").resolve())
    assert faults(path, "demand.trace.path=t.csv")[0].startswith(
        "--set demand.trace.path: there is no file 't.csv'"
    )


def test_a_shipped_scenario_is_extended_by_its_name(tmp_path: Path) -> None:
    scenario = load(written(tmp_path, f"extends: {SHIPPED.name}\nname: mine\n"))
    assert (scenario.name, scenario.engine) == ("mine", load(SHIPPED).engine)
    assert load(written(tmp_path, f"extends: {SHIPPED.stem}\n")) == load(SHIPPED)


def test_a_fault_names_the_file_that_states_the_value(tmp_path: Path) -> None:
    base = MINIMAL.replace("gpu: h200", "gpu: h300") + "engine:\n  max_num_seqs: 4096\n  blok_size: 16\n"
    written(tmp_path, base, "base.yaml")
    text = "extends: base.yaml\nslo: {ttft: {p95: 5}}\nengine: {max_num_batched_tokens: 512}\nmodel:\n"
    found = faults(written(tmp_path, text))
    assert [message.split(",")[0] for message in found] == [
        "s.yaml:2:19: slo.ttft.p95: 5 has no unit",
        "s.yaml:3:34: engine.max_num_batched_tokens: 512 is less than max_num_seqs (4096)",
        "s.yaml:4:1: model: is missing",
        "base.yaml:4:6: gpu: 'h300' is not in the catalog",
        "base.yaml:14:3: engine.blok_size: unknown key",
    ]


def test_what_is_replaced_is_no_fault_of_the_base(tmp_path: Path) -> None:
    written(
        tmp_path,
        MINIMAL + "engine: {max_num_seqs: many}\nfleet: {failures: [{replica: 7, at: 1s}]}\n",
        "b.yaml",
    )
    assert load(written(tmp_path, "extends: b.yaml\nengine: {max_num_seqs: 8}\nfleet: {failures: []}\n"))


def test_a_circle_is_refused_with_the_chain(tmp_path: Path) -> None:
    for name, base in (("a", "b"), ("b", "c"), ("c", "b")):
        written(tmp_path, f"extends: {base}.yaml\n", f"{name}.yaml")
    with pytest.raises(BadInput) as refusal:
        load(tmp_path / "a.yaml")
    assert str(refusal.value).replace(f"{tmp_path}/", "") == (
        "c.yaml:1:10: extends: goes round in a circle: b.yaml extends c.yaml extends b.yaml"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "extends: nowhere.yaml\n",
            "s.yaml:1:10: extends: there is no file 'nowhere.yaml', expected a file beside",
        ),
        ("extends: [a.yaml]\n", "s.yaml:1:10: extends: a list is no text, expected a file beside"),
        ("extends:\n", "s.yaml:1:9: extends: nothing is no text"),
    ],
)
def test_a_base_that_is_none_is_refused(tmp_path: Path, text: str, message: str) -> None:
    (found,) = faults(written(tmp_path, text))
    assert found.startswith(message)


@pytest.mark.parametrize(
    ("name", "listed", "meant"),
    [
        ("chat-lama", "chat-llama-3.1-8b-h200", "chat-llama-3.1-8b-h200"),
        ("chat-llama-3.1-8b-h20", "chat-llama-3.1-8b-h200", "chat-llama-3.1-8b-h200"),
        ("chat-lama.yaml", "chat-llama-3.1-8b-h200.yaml", "chat-llama-3.1-8b-h200.yaml"),
        ("nowhere", "chat-llama-3.1-8b-h200", ""),
    ],
)
def test_a_base_that_is_not_shipped_is_told_as_it_was_typed(
    tmp_path: Path, name: str, listed: str, meant: str
) -> None:
    (found,) = faults(written(tmp_path, f"extends: {name}\n"))
    hint = f", did you mean '{meant}'?" if meant else ""
    assert found.endswith(f"or one of the shipped ones: {listed}{hint}")


def test_the_base_cannot_be_set(tmp_path: Path) -> None:
    (found,) = faults(written(tmp_path, MINIMAL), "extends=other.yaml")
    assert found.startswith("--set extends: what a scenario extends is read before anything is set")


def test_the_record_is_whole_without_the_base(tmp_path: Path) -> None:
    written(tmp_path, MINIMAL, "base.yaml")
    scenario = load(written(tmp_path, "extends: base.yaml\nname: mine\n"))
    record = resolved(scenario)
    assert "extends" not in record
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    assert load(written(elsewhere, json.dumps(record), "record.json")) == scenario


def test_the_schema_requires_nothing_of_a_file_that_extends_another() -> None:
    sound = [
        {"extends": "a.yaml"},
        {"extends": "a.yaml", "demand": {"target": "9/s"}, "slo": {"ttft": {"p95": None}}, "engine": None},
        {"extends": "a.yaml", "demand": {"synthetic": {"prompt_tokens": {"mean": 7}}}},
        {"extends": "a.yaml", "step_cost": {"source": "constant", "seconds": "1ms"}},
    ]
    for data in sound:
        assert list(VALIDATOR.iter_errors(data)) == [], data
    wrong = [
        {"name": "a"},
        {"extends": 1},
        {"extends": "a.yaml", "nme": "a"},
        {"extends": "a.yaml", "demand": {"target": 9}},
        {"extends": "a.yaml", "engine": {"max_num_seqs": 0}},
        {"extends": "a.yaml", "fleet": {"failures": [{"replica": 1}]}},
    ]
    for data in wrong:
        assert not VALIDATOR.is_valid(data), data
