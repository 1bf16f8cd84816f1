from __future__ import annotations

from capsim.documents import parse
from capsim.errors import Fault
from capsim.scenario.overrides import overridden


def test_an_override_changes_a_copy_and_its_faults_name_it() -> None:
    document = parse("a:\n  b: 1\n  c: 2\n", "f.yaml")
    faults: list[Fault] = []
    changed = overridden(document, ["a.b=5", "x.y=6"], faults)
    assert faults == []
    assert document.data == {"a": {"b": 1, "c": 2}}
    assert changed.data == {"a": {"b": 5, "c": 2}, "x": {"y": 6}}
    assert str(changed.fault(("a", "b"), "is bad")) == "--set a.b: is bad"
    assert str(changed.fault(("a", "c"), "is bad")) == "f.yaml:3:6: a.c: is bad"
    assert str(changed.fault(("x",), "unknown key")) == "--set x.y: x: unknown key"


def test_bad_overrides_are_left_out_and_all_reported() -> None:
    faults: list[Fault] = []
    changed = overridden(parse("a: 1\n", "f.yaml"), ["a.b=2", "a=[1", "c=3", "d"], faults)
    assert changed.data == {"a": 1, "c": 3}
    assert [str(fault).split(",")[0] for fault in faults] == [
        "--set a.b: a is not a mapping",
        "--set a: not valid YAML while parsing a flow sequence: expected '",
        "--set: 'd' sets nothing",
    ]
