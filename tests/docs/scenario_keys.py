"""The keys of a scenario file as Markdown, from the schema itself.

What a key allows is what the schema says when it is given something else; what it means is in
`capsim.scenario.meanings`, where a new key says it.
"""

from __future__ import annotations

from typing import Any, get_type_hints

from pydantic import TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from capsim.catalog.schema import Section
from capsim.cost.efficiency import Efficiency
from capsim.scenario.checks import REQUIRED
from capsim.scenario.meanings import SECTIONS, meanings
from capsim.units import format_duration, format_share

EFFICIENCY = {
    "step_cost.compute_efficiency": "gemm_compute",
    "step_cost.weight_bandwidth_efficiency": "gemm_bandwidth",
    "step_cost.kv_bandwidth_efficiency": "attention_bandwidth",
    "step_cost.attention_efficiency": "attention_compute",
    "step_cost.host_overhead": "host_overhead",
}
"""The roofline's own figure behind each key."""

DEFAULTS = {
    "extends": "stands alone",
    "engine.args": "the keys alone",
    "engine.max_model_len": "the model's longest",
    "engine.num_gpu_blocks": "counted by the memory model",
    "fleet.failures.down_for": "never repaired",
    "fleet.gateway": "off",
    "fleet.gateway.queue": "no limit",
    "lengths.max": "no limit",
    "slo.error_rate": "no gate",
    "demand.trace": "one of trace and synthetic",
    "demand.synthetic": "one of trace and synthetic",
    "demand.trace.block_size": "512 with mooncake",
    "demand.synthetic.arrivals.burstiness": "required with gamma",
    "demand.synthetic.prefix": "prompts share nothing",
}
"""Where the schema's None means something."""

ALLOWED = {
    **{f"slo.{metric}": "`{pN: DURATION}`, e.g. `{p95: 500ms}`" for metric in ("ttft", "tpot", "itl", "e2e")},
    "slo.quality": "`{NAME: {value: V, minimum: M}}`",
    "demand.sampling": "`{NAME: VALUE}`, e.g. `{temperature: 0.7, n: 1}`",
    "engine.kv_offload": "a list, see below",
    "demand.synthetic.priorities": "a list, see below",
    "step_cost.source": "as above",
    "lengths.distribution": "as above",
    "plan.drills": "a list of: replica_missing",
    "fleet.failures": "a list, see below",
    "demand.target": "a rate such as '80/s' or '17000 tokens/s' (output tokens), more than 0",
}


def scenario_keys() -> list[str]:
    """A table a section."""
    lines: list[str] = []
    for title, path, section, described in SECTIONS:
        lines += [
            "",
            f"### {title}",
            "",
            "| Key | Allowed | Default | Meaning |",
            "| --- | --- | --- | --- |",
        ]
        types, said = get_type_hints(section, include_extras=True), meanings(path, described)
        for name, field in section.model_fields.items():
            key = f"{path}.{name}".lstrip(".")
            allowed = _allowed(key, types[name])
            row = (f"`{name}`", allowed, _default(key, field, allowed), said[name])
            lines.append(f"| {' | '.join(cell.replace('|', '/') for cell in row)} |")
    return lines


def _allowed(key: str, type_: Any) -> str:
    """What the schema says that it expected when it is given nothing of the kind, nothing at all, or too much."""
    if key in ALLOWED:
        return ALLOWED[key]
    found = _refusal(type_, object())
    if not found:
        return "a mapping, see below"
    if "duration" in found and _refusal(type_, 0):
        return f"{found}, more than 0"
    return _refusal(type_, "1000%") or found if "share" in found else found


def _refusal(type_: Any, value: object) -> str:
    try:
        TypeAdapter(type_).validate_python(value)
    except ValidationError as error:
        details = error.errors(include_url=False)
        return next((each["ctx"]["expected"] for each in details if "expected" in each.get("ctx", {})), "")
    return ""


def _default(key: str, field: FieldInfo, allowed: str) -> str:
    if field.is_required() or key in REQUIRED or key == "demand.target":
        return "required"
    if key in DEFAULTS:
        return DEFAULTS[key]
    if key in EFFICIENCY:
        return _shown(getattr(Efficiency(), EFFICIENCY[key]), allowed)
    return _shown(field.get_default(call_default_factory=True), allowed)


def _shown(default: Any, allowed: str) -> str:
    """A default in the words of the file."""
    if default is None or isinstance(default, Section):
        return "none" if default is None else "see below"
    if isinstance(default, (dict, list)):
        return f"`[{', '.join(default)}]`" if default else "empty"
    if isinstance(default, bool):
        return f"`{str(default).lower()}`"
    if "duration" in allowed:
        return f"`{format_duration(default, None)}`"
    return f"`{format_share(default, None)}`" if "%" in allowed else f"`{default}`"
