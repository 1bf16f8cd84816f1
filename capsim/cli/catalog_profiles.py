"""The shipped profiles: what each covers, and how old it is on a day."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict
from datetime import date, datetime, timezone
from typing import Any

import click

from capsim.catalog.data import data_names, data_path
from capsim.cost import Profile, load_profile

on_option = click.option(
    "--on",
    type=click.DateTime(formats=["%Y-%m-%d"]),
    default=lambda: datetime.now(tz=timezone.utc).replace(tzinfo=None),
    show_default="today",
    metavar="DATE",
    help="Day on which the age of profiles is told, such as 2026-12-24.",
)


def profile_names() -> tuple[str, ...]:
    """Names of the shipped profiles, those of their files without the ending."""
    return tuple(name.removesuffix(".json") for name in data_names("profiles", (".json",)))


def shipped_profiles() -> dict[str, Profile]:
    """Profiles by their names."""
    return {name: load_profile(data_path("profiles", f"{name}.json")) for name in profile_names()}


def profile_entries(profiles: Mapping[str, Profile], on: date) -> list[dict[str, Any]]:
    """What there is to say of each profile beside its tables.

    Args:
        profiles: by name.
        on: the day on which their age is told.
    """
    newest: dict[str, str] = {}
    for profile in profiles.values():
        engine, version = profile.provenance.engine, profile.provenance.engine_version
        newest[engine] = max(newest.get(engine, ""), version, key=_numbers)
    return [
        _entry(name, profile, newest[profile.provenance.engine], on) for name, profile in profiles.items()
    ]


def _entry(name: str, profile: Profile, newest: str, on: date) -> dict[str, Any]:
    stated = asdict(profile.provenance)
    behind = _numbers(stated["engine_version"]) < _numbers(newest)
    return {
        "name": name,
        "ranges": dict(profile.ranges),
        **stated,
        "files": list(stated["files"]),
        "age_days": (on - date.fromisoformat(stated["date"])).days,
        "behind": newest if behind else None,
    }


def _numbers(version: str) -> tuple[int, ...]:
    """A version's numbers, by which versions are in order."""
    return tuple(int(number) for number in re.findall(r"\d+", version))
