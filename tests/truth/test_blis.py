from __future__ import annotations

import pytest

from tests.truth import blis

pytestmark = pytest.mark.skipif(bool(blis.missing()), reason=blis.missing() or "everything is there")


def test_the_file_has_both_kinds_of_stages() -> None:
    assert len(blis.judged()) == 19
    assert len(blis.stages()) == 21


def test_overloaded_stages_are_called_overloaded() -> None:
    assert all(blis.called_overloaded(stage) for stage in blis.stages() if stage.overloaded)


def test_a_slow_roofline_calls_the_highest_rates_overloaded() -> None:
    """Two stages at 20 requests/s, which repeated prompts would explain: so the page says."""
    wrong = [stage.rate for stage in blis.judged() if blis.called_overloaded(stage)]
    assert wrong == [20.0, 20.0]
    assert not any(blis.called_overloaded(stage, repeated=True) for stage in blis.judged())


def test_data_sheets_alone_are_right_to_a_fifth_at_the_median() -> None:
    """The roofline's shares differ by as much between the profiles whose median they are."""
    found = blis.medians()
    assert found["E2E"] < 0.2
    assert found["TPOT"] < 0.2
