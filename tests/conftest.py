"""Settings of all tests."""

from __future__ import annotations

import os

from hypothesis import settings

settings.register_profile("repeatable", derandomize=True)
if os.environ.get(
    "CI"
):  # a change must not be judged by another change's luck; elsewhere every run searches anew
    settings.load_profile("repeatable")
