"""``capsim calibrate show``: what a profile holds, and how far it lies from the roofline."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click

from calibrate.columns import columns, milliseconds, percent, sentences, terms
from calibrate.composed import Composed, composed_steps
from calibrate.memory.shown import memory_rows
from calibrate.options import json_option
from calibrate.probe import cost_of, model_of, probe_batches
from calibrate.regime import errors_of
from capsim.catalog import gpu_names, load_gpu
from capsim.cost import BatchShape, Profile, ProfileCost, RooflineCost, load_profile
from capsim.cost.profile_tables import HeldOut
from capsim.errors import BadInput, Fault


@dataclass(frozen=True)
class Shown:
    """A profile beside the roofline of its GPU.

    Attributes:
        profile: what was read.
        cost: its step cost.
        roofline: from the catalog's data sheet, with the profile's host; None where the GPU is not in the catalog.
        steps: composed steps.
        batches: inside what was measured; `tables` and `lines` are seconds of each by the profile and the roofline.
    """

    profile: Profile
    cost: ProfileCost
    roofline: RooflineCost | None
    steps: tuple[Composed, ...]
    batches: tuple[BatchShape, ...]
    tables: tuple[float, ...]
    lines: tuple[float, ...]

    @classmethod
    def of(cls, profile: Profile) -> Shown:
        """Compose the steps of a profile."""
        cost, stated = cost_of(profile), profile.provenance
        gpu = load_gpu(stated.gpu) if stated.gpu in gpu_names() else None
        model = model_of(profile)
        steps = composed_steps(profile, model, gpu)
        batches = probe_batches([cost])
        # The host is no property of GPU or kernels: both sides are compared without it.
        tables = tuple(cost.step(batch) - profile.host for batch in batches)
        if gpu is None:
            return cls(profile, cost, None, steps, batches, tables, ())
        roofline = RooflineCost(
            model,
            gpu,
            stated.tensor_parallel_size,
            stated.dtype,
            stated.kv_dtype,
            expert_parallel=stated.expert_parallel,
        )
        host = roofline.efficiency.host_overhead
        lines = tuple(roofline.step(batch) - host for batch in batches)
        return cls(profile, cost, roofline, steps, batches, tables, lines)

    @property
    def errors(self) -> tuple[HeldOut, ...]:
        """Relative errors of the roofline, by kind of step."""
        return errors_of(self.batches, self.lines, self.tables) if self.lines else ()

    def shares(self, batch: BatchShape) -> dict[str, float]:
        """Share of each operator in a step, largest first."""
        parts = self.cost.parts(batch)
        total = sum(parts.values())
        return {
            name: seconds / total
            for name, seconds in sorted(parts.items(), key=lambda part: -part[1])
            if seconds > 0
        }


@click.command()
@click.argument("profile_file", metavar="PROFILE", type=click.Path(path_type=Path))
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder for the figures (PNG); made if need be.",
)
@json_option
def show(profile_file: Path, out: Path | None, as_json: bool) -> None:
    """Show a profile: provenance, ranges, tables, composed steps beside the roofline, and figures.

    \b
    Example:
      capsim calibrate show profile.json --out figures
    """  # noqa: D301 (click looks for the character, not for two)
    shown = Shown.of(load_profile(profile_file))
    figures = [] if out is None else _draw(shown, out)
    if as_json:
        answer = {**as_data(shown), "figures": [str(path) for path in figures]}
        click.echo(json.dumps(answer, indent=2, allow_nan=False))
        return
    click.echo("\n".join(as_text(shown)))
    for path in figures:
        click.echo(f"wrote {path}", err=True)


def as_data(shown: Shown) -> dict[str, Any]:
    """The answer as plain data; times in seconds, differences relative to the profile."""
    profile = shown.profile
    return {
        "provenance": {**asdict(profile.provenance), "shapes": dict(profile.provenance.shapes)},
        "ranges": {name: list(bounds) for name, bounds in profile.ranges.items()},
        "tables": [
            dict(zip(("name", "per", "times", "tag", "size"), row, strict=True)) for row in _tables(profile)
        ],
        "host": profile.host,
        "memory": None if profile.memory is None else asdict(profile.memory),
        "steps": [
            {
                "name": step.name,
                "seconds": step.seconds,
                "without_host": step.seconds - profile.host,
                "roofline": step.roofline,
                "error": _error(step, profile.host),
                "outside": step.outside,
                "shares": shown.shares(step.batch),
            }
            for step in shown.steps
        ],
        "roofline_errors": [asdict(error) for error in shown.errors],
        "held_out": [asdict(error) for error in profile.held_out],
    }


def as_text(shown: Shown) -> list[str]:
    """The answer in lines."""
    profile = shown.profile
    lines = [*_head(profile), "", "tables"]
    lines += columns(("table", "by", "times", "known by", "points"), "llrlr", _tables(profile))
    lines += ["", "measured from ... to"]
    lines += columns(
        ("axis", "from", "to"), "lrr", [(k, f"{a:,}", f"{b:,}") for k, (a, b) in profile.ranges.items()]
    )
    if profile.memory is not None:
        lines += ["", "memory of a rank"]
        lines += columns(("what", "size", "known by", "source"), "lrll", memory_rows(profile.memory))
    lines += ["", "composed steps (ms without the host; shares of the whole step)"]
    lines += columns(
        ("step", "ms", "roofline ms", "roofline", "largest shares"),
        "lrrrl",
        [_row(shown, step) for step in shown.steps],
    )
    if any(step.outside for step in shown.steps):
        lines.append("  * outside what was measured")
    if shown.errors:
        lines += ["", f"roofline against the profile, {len(shown.batches)} shapes inside what was measured"]
        lines += error_lines(shown.errors)
    else:
        lines += ["", f"no roofline: {profile.provenance.gpu} is not in the catalog"]
    lines += ["", "the profile against shapes that its tables do not hold"]
    lines += error_lines(profile.held_out) if profile.held_out else ["  none were held out"]
    if profile.provenance.notes:
        lines += ["", "notes", *sentences(profile.provenance.notes)]
    return lines


def error_lines(errors: Any) -> list[str]:
    """A table of relative errors by kind of step."""
    rows = [
        (e.regime, e.size, f"{e.cases:,}", f"{100 * e.median:.1f} %", f"{100 * e.p90:.1f} %", percent(e.bias))
        for e in errors
    ]
    return columns(("regime", "size", "shapes", "median", "p90", "bias"), "llrrrr", rows)


def _head(profile: Profile) -> list[str]:
    stated = profile.provenance
    derived = "derived from " if stated.derived_from else ""
    facts: Mapping[str, str] = {
        "profile": profile.source,
        "model": f"{stated.model}, {stated.dtype} weights, {stated.kv_dtype} KV",
        "GPU": f"{stated.tensor_parallel_size} x {stated.gpu} ({derived}{stated.gpu_name})",
        "engine": f"{stated.engine} {stated.engine_version}",
        "measured": f"{stated.date}, by {stated.measured_by}",
        "licence": f"{stated.licence}; {stated.attribution}",
        "imported": f"{stated.importer}, from {', '.join(file['name'] for file in stated.files) or 'no file'}",
        **_experts(profile),
        "host": f"{milliseconds(profile.host)} ms a step, {profile.tags['host']}",
    }
    return terms(facts)


def _experts(profile: Profile) -> dict[str, str]:
    """What a mixture of experts is, how it lies on the ranks, and how it was routed; nothing of a dense model."""
    stated = profile.provenance
    if stated.experts is None:
        return {}
    lie = "each expert split over all ranks"
    if stated.expert_parallel:
        lie = "whole experts dealt out to the ranks"
    facts = [str(stated.experts.count), f"{stated.experts.per_token} a token"]
    facts += [lie] if stated.tensor_parallel_size > 1 else []
    facts.append(f"{stated.routing} routing" if stated.routing else "routing not recorded")
    return {"experts": ", ".join(facts)}


def _tables(profile: Profile) -> list[tuple[str, str, str, str, str]]:
    rows = []
    for operator in profile.operators:
        points = len(operator.seconds.points) + (len(operator.aligned.points) if operator.aligned else 0)
        aligned = f", multiples of {operator.multiple} apart" if operator.aligned else ""
        rows.append((operator.name, operator.per + aligned, str(operator.times), operator.tag, f"{points:,}"))
    attention = profile.attention
    sizes: dict[str, tuple[int, ...]] = {
        "prefill": (len(attention.prefill.rows), len(attention.prefill.columns)),
        "decode": (len(attention.decode.rows), len(attention.decode.columns)),
    }
    axes = {"prefill": "new, past", "decode": "decodes, context"}
    if mixed := attention.mixed:
        sizes["mixed"] = tuple(map(len, (mixed.new, mixed.past, mixed.decodes, mixed.context)))
        axes["mixed"] = "new, past, decodes, context"
    for name, skew in (("skew", attention.skew), ("mixed_skew", attention.mixed_skew)):
        if skew:
            sizes[name] = (len(skew.decodes), len(skew.ratio))
            axes[name] = "decodes, longest / mean context"
    for name, size in sizes.items():
        extent = " x ".join(map(str, size))
        rows.append((f"attention, {name}", axes[name], str(attention.times), profile.tags[name], extent))
    return rows


def _row(shown: Shown, step: Composed) -> tuple[str, str, str, str, str]:
    shares = [f"{name} {100 * share:.0f} %" for name, share in list(shown.shares(step.batch).items())[:3]]
    name = step.name + (" *" if step.outside else "")
    seconds = step.seconds - shown.profile.host
    error = percent(_error(step, shown.profile.host))
    return name, milliseconds(seconds), milliseconds(step.roofline), error, ", ".join(shares)


def _error(step: Composed, host: float) -> float | None:
    return None if step.roofline is None else step.roofline / (step.seconds - host) - 1


def _draw(shown: Shown, out: Path) -> list[Path]:
    from calibrate.figures import write_figures

    try:
        out.mkdir(parents=True, exist_ok=True)
        return write_figures(shown, out)
    except OSError as error:
        raise BadInput(
            Fault("--out", f"cannot write to {out}: {error.strerror}", expected="a writable folder")
        ) from error
