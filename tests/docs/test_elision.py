from __future__ import annotations

import pytest

from tests.docs.elision import matches, refreshed

PRINTED = ["title", "", "A", "  one 1.5", "", "B", "  two", "  three", "", "C", "  four"]


@pytest.mark.parametrize(
    "shown",
    [
        PRINTED,
        ["title", "..."],
        ["title", "", "..."],
        ["title", "", "A", "  one ...", "", "..."],
        ["...", "B", "  two", "..."],
        ["...", "B", "  two", "  three", "", "..."],
        ["title", "...", "  three", "...", "C", "  four"],
        ["...", "C", "  four"],
    ],
)
def test_what_matches_stays_as_it_is(shown: list[str]) -> None:
    assert matches(shown, PRINTED)
    assert refreshed(shown, PRINTED) == shown


@pytest.mark.parametrize(
    ("shown", "fresh"),
    [
        ([], PRINTED),
        (["..."], ["..."]),
        (["titel", "..."], ["title", "..."]),
        (["title", "", "A", "  one 1.4", "", "..."], ["title", "", "A", "  one 1.5", "", "..."]),
        (["...", "B", "  two", "", "..."], ["...", "B", "  two", "  three", "", "..."]),
        (["...", "B", "  deux", "..."], ["...", "B", "  two", "..."]),
        (["title", "...", "", "C", "  five"], ["title", "...", "", "C", "  four"]),
    ],
)
def test_what_has_changed_is_replaced_and_what_was_left_out_stays_out(
    shown: list[str], fresh: list[str]
) -> None:
    assert not matches(shown, PRINTED) or shown == fresh
    assert refreshed(shown, PRINTED) == fresh
    assert matches(fresh, PRINTED)


def test_dots_of_progress_leave_nothing_out() -> None:
    """Four dots and more are printed ones, so that a page shows what they stand beside."""
    shown = [".....", "5 passed in 1s"]
    printed = ["........  [ 50%]", "........  [100%]", "16 passed in 2s"]
    assert not matches(shown, printed)
    assert refreshed(shown, printed) == printed
    assert matches(printed, printed)
    assert refreshed(["...", "5 passed in 1s"], printed) == ["...", "16 passed in 2s"]


def test_a_part_that_is_gone_is_an_error() -> None:
    with pytest.raises(LookupError, match="nothing of the kind"):
        refreshed(["title", "...", "nothing of the kind", "..."], PRINTED)
