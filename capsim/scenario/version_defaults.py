"""Defaults of an engine's settings that changed from one of its versions to another."""

from __future__ import annotations

import re

SINCE = {"async_scheduling": (0, 14), "scheduler_reserve_full_isl": (0, 19)}
"""Settings that vLLM turned on by default, and the version that did.

Sources: the release notes of 0.14.0 (January 2026, asynchronous scheduling), and pull request 37307 (whole prompts are
reserved).
"""


def default_of(setting: str, engine_version: str) -> bool:
    """Whether a setting of `SINCE` is on by default in a version such as ``0.19.0``; an unknown one counts as new."""
    match = re.search(r"(\d+)\.(\d+)", engine_version)
    return match is None or (int(match[1]), int(match[2])) >= SINCE[setting]
