"""``capsim calibrate check``: do two measurements of the same thing agree?"""

from __future__ import annotations

import importlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np

from calibrate.columns import columns, milliseconds, percent
from calibrate.importers.step_source import StepSource
from calibrate.options import json_option
from calibrate.probe import cost_of, is_outside, probe_batches
from calibrate.regime import Kind, errors_of, kind_of, shape_text
from calibrate.show import error_lines
from capsim.cost import BatchShape, Profile, ProfileCost, load_profile
from capsim.errors import BadInput, Fault

STEP_SOURCES = ("vllm-bench-forward", "dynamo-fpm", "sglang-one-batch", "engine-steps")
"""Importers of whole steps, whose rows can be compared with a profile as they are."""
AGREE, CLOSE = 0.05, 0.15
"""Median relative differences: two runs of one benchmark differ by a few per cent, and from about 15 % on a plan
changes by a replica in every seven."""
WORST = 5
"""Shapes that are named."""
LOGITS = {"lm_head", "logits_gather", "sampler"}
"""Operators that follow the forward pass."""


@dataclass(frozen=True)
class Comparison:
    """Seconds of the same steps by a profile and by what it is checked against.

    Attributes:
        batches: the steps.
        ours: seconds of each by the profile.
        theirs: seconds of each by the other side, above 0.
        differences: between what the two hold for, in words; empty where they hold for the same.
        outside: steps of the other side that were left out, because the profile was not measured for them.
    """

    batches: tuple[BatchShape, ...]
    ours: tuple[float, ...]
    theirs: tuple[float, ...]
    differences: tuple[str, ...] = ()
    outside: int = 0

    @property
    def relative(self) -> tuple[float, ...]:
        """(ours - theirs) / theirs, a step."""
        return tuple(ours / theirs - 1 for ours, theirs in zip(self.ours, self.theirs, strict=True))

    @property
    def verdict(self) -> str:
        """One sentence."""
        if not self.batches:
            return "NO VERDICT: no step lies inside what both were measured for"
        kinds: dict[Kind, list[float]] = {}
        for batch, difference in zip(self.batches, self.relative, strict=True):
            kinds.setdefault(kind_of(batch), []).append(difference)
        medians = {kind: float(np.median(np.abs(values))) for kind, values in kinds.items()}
        kind = max(medians, key=lambda each: medians[each])
        worst = f"{kind.size} {kind.regime} steps by {100 * medians[kind]:.1f} % in the median"
        if medians[kind] <= AGREE:
            return f"AGREE: no kind of step differs by more than {100 * AGREE:.0f} % in the median ({worst})"
        if medians[kind] <= CLOSE:
            return f"CLOSE: they differ most on {worst}"
        return f"DISAGREE: they differ on {worst}"


@click.command()
@click.argument("profile_file", metavar="PROFILE", type=click.Path(path_type=Path))
@click.option(
    "--against",
    required=True,
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Another profile, or with --from a result file.",
)
@click.option(
    "--from", "source", type=click.Choice(STEP_SOURCES), help="FILE holds measured steps of this kind."
)
@click.option("--force", is_flag=True, help="Compare what holds for different models, dtypes or ranks.")
@json_option
def check(profile_file: Path, against: Path, source: str | None, force: bool, as_json: bool) -> None:
    """Check a profile against another, or against measured steps; the exit code does not depend on the verdict.

    \b
    Example:
      capsim calibrate check a.json --against b.json
    """  # noqa: D301 (click looks for the character, not for two)
    profile = load_profile(profile_file)
    if source is None:
        comparison = compare_profiles(profile, load_profile(against), force=force)
    else:
        module = importlib.import_module(f"calibrate.importers.{source.replace('-', '_')}")
        comparison = compare_steps(profile, module.measured(against))
    answer = json.dumps(as_data(comparison), indent=2, allow_nan=False)
    click.echo(answer if as_json else "\n".join(as_text(comparison)))


def compare_profiles(ours: Profile, theirs: Profile, *, force: bool = False) -> Comparison:
    """Both profiles on the shapes that lie inside what both were measured for, without their hosts.

    Raises:
        BadInput: they hold for different models, dtypes or ranks, and `force` is not given.
    """
    differences = _differences(ours, theirs)
    if differences and not force:
        faults = [
            Fault(ours.source, text, "provenance", "the same on both sides, or --force")
            for text in differences
        ]
        raise BadInput(*faults)
    costs = cost_of(ours), cost_of(theirs)
    batches = probe_batches(costs)
    seconds = [tuple(cost.step(batch) - cost.profile.host for batch in batches) for cost in costs]
    return Comparison(batches, seconds[0], seconds[1], tuple(differences))


def compare_steps(ours: Profile, theirs: StepSource) -> Comparison:
    """A profile on the measured steps that lie inside what it was measured for.

    Where the source does not hold the host's time or that of output projection and sampling, neither does the
    profile's side.
    """
    cost = cost_of(ours)
    inside = [step for step in theirs.steps if not is_outside(cost, step.batch)]
    return Comparison(
        tuple(step.batch for step in inside),
        tuple(_as_measured(cost, step.batch, theirs) for step in inside),
        tuple(step.seconds for step in inside),
        outside=len(theirs.steps) - len(inside),
    )


def as_data(comparison: Comparison) -> dict[str, Any]:
    """The answer as plain data."""
    return {
        "verdict": comparison.verdict,
        "differences": list(comparison.differences),
        "shapes": len(comparison.batches),
        "outside": comparison.outside,
        "by_kind": [asdict(error) for error in _errors(comparison)],
        "worst": [
            {"shape": shape_text(batch), "seconds": ours, "against": theirs, "difference": difference}
            for batch, ours, theirs, difference in _worst(comparison)
        ],
    }


def as_text(comparison: Comparison) -> list[str]:
    """The answer in lines."""
    lines = [comparison.verdict]
    lines += [f"  compared by force although {text}" for text in comparison.differences]
    if comparison.outside:
        lines.append(f"  {comparison.outside} steps lie outside what the profile was measured for: left out")
    if not comparison.batches:
        return lines
    lines += ["", f"relative differences over {len(comparison.batches):,} shapes"]
    lines += error_lines(_errors(comparison))
    rows = [
        (shape_text(batch), milliseconds(ours), milliseconds(theirs), percent(difference))
        for batch, ours, theirs, difference in _worst(comparison)
    ]
    lines += ["", "farthest apart"]
    return lines + columns(("shape", "profile ms", "against ms", "difference"), "lrrr", rows)


def _errors(comparison: Comparison) -> Sequence[Any]:
    return errors_of(comparison.batches, comparison.ours, comparison.theirs)


def _worst(comparison: Comparison) -> list[tuple[BatchShape, float, float, float]]:
    differences = comparison.relative
    rows = list(zip(comparison.batches, comparison.ours, comparison.theirs, differences, strict=True))
    return sorted(rows, key=lambda row: -abs(row[3]))[:WORST]


def _differences(ours: Profile, theirs: Profile) -> list[str]:
    one, other = ours.provenance, theirs.provenance
    pairs: dict[str, tuple[object, object]] = {
        shape: (size, other.shapes[shape]) for shape, size in one.shapes.items()
    }
    pairs |= {name: (getattr(one, name), getattr(other, name)) for name in ("dtype", "kv_dtype")}
    names = ("tensor_parallel_size", "expert_parallel_size", "routing", "experts")
    pairs |= {name: (getattr(one, name), getattr(other, name)) for name in names}
    return [
        f"{name} is {first} here and {second} in {theirs.source}"
        for name, (first, second) in pairs.items()
        if first != second
    ]


def _as_measured(cost: ProfileCost, batch: BatchShape, source: StepSource) -> float:
    """Seconds of a step by the profile, of what the source measured."""
    parts = cost.parts(batch)
    left_out = set() if source.holds_host else {"host"}
    if not source.holds_logits:
        left_out |= LOGITS
    return sum(seconds for name, seconds in parts.items() if name not in left_out)
