"""Results for people: plain text and figures, drawn from the plain data of `result.json` alone."""

from typing import Any

Json = dict[str, Any]
"""A result as `capsim.plan.plan_result` or a like module gives it, or a part of one."""
