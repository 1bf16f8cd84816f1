from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capsim.errors import BadInput
from capsim.plan.sweep_axis import Axis, parse_axes, parse_axis

GOOD = [
    ("rate=2..20/s:10", "rate", ("2/s", "4/s", "6/s", "8/s", "10/s", "12/s", "14/s", "16/s", "18/s", "20/s")),
    ("rate=2/s..4/s:2", "rate", ("2/s", "4/s")),
    ("rate=1/s, 60/min,2/s", "rate", ("1/s", "60/min", "2/s")),
    ("concurrency=1,8,8,64", "concurrency", ("1", "8", "64")),
    ("engine.max_num_seqs=64..256:4", "engine.max_num_seqs", ("64", "128", "192", "256")),
    ("plan.reserve=0..0.3:4", "plan.reserve", ("0", "0.1", "0.2", "0.3")),
    ("slo.ttft.p95=100ms..500ms:3", "slo.ttft.p95", ("100ms", "300ms", "500ms")),
    ("engine.watermark=10..0%:3", "engine.watermark", ("0%", "5%", "10%")),
    ("rate=10..5/s:4", "rate", ("5/s", "6.667/s", "8.333/s", "10/s")),
    ("rate=10.12345..20/s:3", "rate", ("10.12345/s", "15.062/s", "20/s")),
    ("rate=1000.5..1001.5/s:5", "rate", ("1000.5/s", "1000.75/s", "1001/s", "1001.25/s", "1001.5/s")),
    (
        "demand.synthetic.prompt_tokens={distribution: fixed, value: 9},{distribution: geometric, mean: 3}",
        "demand.synthetic.prompt_tokens",
        ("{distribution: fixed, value: 9}", "{distribution: geometric, mean: 3}"),
    ),
    ("plan.drills=[],[replica_missing]", "plan.drills", ("[]", "[replica_missing]")),
    ("step_cost.path=a..b.json", "step_cost.path", ("a..b.json",)),
]


@pytest.mark.parametrize(("text", "name", "values"), GOOD, ids=lambda value: str(value)[:30])
def test_values_are_listed_or_spaced(text: str, name: str, values: tuple[str, ...]) -> None:
    assert parse_axis(text) == Axis(name, values)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rate", "'rate' goes over nothing, expected rate=2..20/s:10"),
        ("=3", "'=3' goes over nothing"),
        ("rate=", "'rate=' goes over nothing"),
        ("rate=2..20:3", "--over rate: '2' has no unit, expected a rate such as '80/s'"),
        ("rate=2/s..20/min:3", "'/s' and '/min' are two units"),
        ("rate=2..20/s:1", "a span of 1 values, expected from 2 to 1000"),
        ("rate=2..20/s:100000", "100000 values are too many, expected at most 1000"),
        ("rate=5..5/s:3", "nothing lies between 5 and 5, expected two finite ends"),
        ("rate=5..1e999/s:3", "nothing lies between 5 and 1e999"),
        (f"rate=5..10/s:{'9' * 5000}", "is no span"),
        (
            "rate=5..10/s",
            "--over rate: '5..10/s' is no span, expected FROM..TO:COUNT, such as rate=5..10/s:6",
        ),
        ("rate=5/s..10/s:", "'5/s..10/s:' is no span"),
        ("engine.max_num_seqs=64..256", "'64..256' is no span"),
        ("rate=100 tokens/s", "'100 tokens/s' counts tokens"),
        ("rate=0/s", "'0/s' offers nothing"),
        ("rate=1/s,,2/s", "has an empty value"),
        ("concurrency=0", "'0' is no number of clients, expected whole numbers, at least 1"),
        ("concurrency=1..2:3", "'1.5' is no number of clients"),
    ],
)
def test_what_goes_over_nothing_is_refused(text: str, message: str) -> None:
    with pytest.raises(BadInput) as refusal:
        parse_axis(text)
    assert message in str(refusal.value)


def test_every_axis_is_judged() -> None:
    with pytest.raises(BadInput) as refusal:
        parse_axes(["rate=1", "concurrency=none", "engine.block_size=16"])
    assert len(refusal.value.faults) == 2


@given(low=st.integers(0, 10**6), step=st.integers(1, 1000), count=st.integers(2, 50))
def test_whole_steps_give_whole_numbers(low: int, step: int, count: int) -> None:
    values = parse_axis(f"engine.max_num_seqs={low}..{low + step * (count - 1)}:{count}").values
    assert values == tuple(str(low + step * i) for i in range(count))
