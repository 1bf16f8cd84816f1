"""`requests.csv`: one row a request, as the run recorded it."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from capsim.plan.deployment import deploy
from capsim.plan.simulation import run_simulation
from capsim.report.requests import write_requests
from capsim.scenario import load
from tests.report.results import HERE

SMALL = HERE.parent / "plan" / "small.yaml"


@pytest.mark.parametrize(
    ("changes", "held"), [((), False), (("fleet.gateway={max_outstanding: 4, queue: 20}",), True)]
)
def test_what_a_request_waited_at_the_gateway_is_kept(
    tmp_path: Path, changes: tuple[str, ...], held: bool
) -> None:
    simulation = run_simulation(deploy(load(SMALL, changes)), rate=60.0, requests=100)
    path = tmp_path / "requests.csv"
    write_requests(simulation.log, path)
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    seconds = [float(row["held_s"]) for row in rows]
    assert seconds == pytest.approx(simulation.log.requests.held, rel=1e-8)  # 9 digits are written
    assert any(seconds) is held
    for row, waited in zip(rows, seconds, strict=True):
        if row["outcome"] == "completed":
            assert float(row["user_ttft_s"]) > waited
