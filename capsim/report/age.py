from __future__ import annotations

MONTH, YEAR = 30.436875, 365.2425
"""Days, on average of the Gregorian calendar."""


def age_text(days: int) -> str:
    """How long ago in the unit that suits it: days below two months, months below two years; whole ones, cut."""
    if days < 0:
        return "not yet"
    for unit, length in (("year", YEAR), ("month", MONTH)):
        if days >= 2 * length:
            return f"{int(days / length)} {unit}s"
    return f"{days} day{'' if days == 1 else 's'}"
