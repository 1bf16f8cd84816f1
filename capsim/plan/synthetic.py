from __future__ import annotations

from capsim.scenario import ArrivalSettings, LengthSettings, SyntheticSettings
from capsim.workload.arrivals import ConstantArrivals, GammaArrivals, PoissonArrivals, RenewalProcess
from capsim.workload.demand import SyntheticDemand
from capsim.workload.lengths import (
    FixedLength,
    GeometricLength,
    LengthDistribution,
    LognormalLength,
    UniformLength,
)
from capsim.workload.priorities import PriorityMix
from capsim.workload.shared_prefixes import SharedPrefixes


def synthetic_demand(settings: SyntheticSettings) -> SyntheticDemand:
    """The source of requests that a scenario states by distributions."""
    return SyntheticDemand(
        _arrivals(settings.arrivals),
        _lengths(settings.prompt_tokens),
        _lengths(settings.output_tokens),
        None if settings.prefix is None else SharedPrefixes(**vars(settings.prefix)),
        _priorities(settings),
    )


def _priorities(settings: SyntheticSettings) -> PriorityMix | None:
    shares = tuple((each.priority, each.share) for each in settings.priorities)
    return PriorityMix(shares) if shares else None


def _arrivals(settings: ArrivalSettings) -> RenewalProcess:
    match settings.process:
        case "constant":
            return ConstantArrivals()
        case "gamma":
            return GammaArrivals(settings.burstiness or 1.0)
        case _:
            return PoissonArrivals()


def _lengths(settings: LengthSettings) -> LengthDistribution:
    match settings:
        case LengthSettings(distribution="fixed", value=int(value)):
            return FixedLength(value)
        case LengthSettings(distribution="uniform", low=int(low), high=int(high)):
            return UniformLength(low, high)
        case LengthSettings(distribution="lognormal", mean=float(mean), cv=float(cv)):
            return LognormalLength(mean, cv, settings.max)
        case LengthSettings(distribution="geometric", mean=float(mean)):
            return GeometricLength(mean)
    raise AssertionError(f"a checked scenario has no such lengths: {settings}")
