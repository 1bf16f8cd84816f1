"""Settings of all tests."""

from __future__ import annotations

import os

from hypothesis import settings

# No deadline: the time of one example says how busy the machine is.
settings.register_profile("searching", deadline=None)
# In CI a change must not be judged by another change's luck; elsewhere every run searches anew.
settings.register_profile("repeatable", deadline=None, derandomize=True)
settings.load_profile("repeatable" if os.environ.get("CI") else "searching")
