"""Time that a step cost and a scenario leave out, fitted to a benchmark: of the host in a step, of the gateway."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from capsim.cost.offset import OffsetCost
from capsim.errors import BadInput, Fault
from capsim.plan.benchmark_load import BenchmarkLoad
from capsim.plan.deployment import Deployment
from capsim.plan.prediction import measured_figures, predict
from capsim.plan.progress import Progress, Silence

STATISTICS = ("mean", "p50")
"""Of TTFT and TPOT, what is fitted; tails are left for the judgement."""
SCAN = 8
"""Host overheads tried first, evenly spaced, so that the search begins beside the best of them."""
REFINEMENTS = 30
"""Most host overheads tried after those."""
TOLERANCE = 1e-5
"""Of the host overhead, as a share of the longest that is possible."""
ROUNDS = 4
"""Most searches of a closed loop, whose clients send later when the gateway is slower."""
SETTLED = 1e-3
"""Change of the gateway latency, as a share of it, at which these searches end."""


@dataclass(frozen=True)
class Overhead:
    """Seconds added, neither below 0.

    Attributes:
        host: to every step.
        gateway: to every request, on its way to the engine.
    """

    host: float = 0.0
    gateway: float = 0.0


@dataclass(frozen=True)
class OverheadFit:
    """An overhead and how well it fits.

    Attributes:
        overhead: what was found.
        residual: root of the mean squared relative error that is left on the fitted figures.
        searches: step overheads that were simulated.
    """

    overhead: Overhead
    residual: float
    searches: int


def with_overhead(deployment: Deployment, overhead: Overhead) -> Deployment:
    """The deployment with longer steps and a slower gateway."""
    scenario = deployment.scenario
    latencies = scenario.fleet.latencies
    slower = replace(latencies, gateway=latencies.gateway + overhead.gateway)
    cost = OffsetCost(deployment.cost, overhead.host) if overhead.host else deployment.cost
    fleet = replace(scenario.fleet, latencies=slower)
    return replace(deployment, scenario=replace(scenario, fleet=fleet), cost=cost)


def fit_overhead(
    deployment: Deployment, loads: Sequence[BenchmarkLoad], progress: Progress | None = None
) -> OverheadFit:
    """Find the overhead that gives the runs' mean and median TTFT and TPOT best.

    Least squares of relative errors. For a host overhead, the best gateway latency follows in closed form: it adds to
    TTFT and to nothing else, exactly so in an open loop; in a closed loop the search is repeated from the latency
    found until that no longer changes.

    Args:
        deployment: without the overhead.
        loads: the runs to fit on, at least one.
        progress: told of each search.

    Raises:
        BadInput: a run has no TTFT or no TPOT.
    """
    progress = progress or Silence()
    targets = [_targets(load) for load in loads]
    gateway, searches = 0.0, 0
    for _ in range(ROUNDS):
        search = _Search(deployment, loads, targets, gateway, progress)
        host = search.best_host()
        searches += len(search.tried)
        shift, squares = search.judged(host)
        gateway += shift
        if all(load.concurrency is None for load in loads) or abs(shift) <= SETTLED * gateway:
            break
    figures = sum(len(each) for target in targets for each in target)
    return OverheadFit(Overhead(host, gateway), (squares / figures) ** 0.5, searches)


Targets = tuple[tuple[float, ...], tuple[float, ...]]
"""TTFT and time per token of a run, seconds, one value a statistic."""


def _targets(load: BenchmarkLoad) -> Targets:
    measured = measured_figures(load)
    if "ttft" not in measured or "tpot" not in measured:
        missing = "TTFT" if "ttft" not in measured else "TPOT"
        raise BadInput(
            Fault(load.run.source, f"has no {missing} to fit overhead on", expected="a run with both")
        )
    first, token = ([measured[metric][name] for name in STATISTICS] for metric in ("ttft", "tpot"))
    if min(*first, *token) <= 0:
        raise BadInput(Fault(load.run.source, "has latencies of 0, to which no error is relative"))
    return tuple(first), tuple(token)


class _Search:
    """The best host overhead beside a gateway latency that is known to be near."""

    def __init__(
        self,
        deployment: Deployment,
        loads: Sequence[BenchmarkLoad],
        targets: Sequence[Targets],
        gateway: float,
        progress: Progress,
    ) -> None:
        self._deployment, self._loads, self._targets = deployment, loads, targets
        self._gateway, self._progress = gateway, progress
        self.tried: dict[float, tuple[float, float]] = {}

    def best_host(self) -> float:
        """Seconds a step: no step is longer than a token takes, which bounds it."""
        from scipy.optimize import minimize_scalar  # scipy is loaded only where something is fitted

        longest = max(token[0] for _, token in self._targets)
        places = [longest * i / SCAN for i in range(SCAN + 1)]
        self._progress.start("fit overhead, at most", len(places) + REFINEMENTS)
        near = min(range(SCAN + 1), key=lambda i: self._squares(places[i]))
        bounds = (places[max(0, near - 1)], places[min(SCAN, near + 1)])
        options = {"xatol": TOLERANCE * longest, "maxiter": REFINEMENTS}
        minimize_scalar(self._squares, bounds=bounds, method="bounded", options=options)
        return min(self.tried, key=lambda host: (self.tried[host][1], host))

    def judged(self, host: float) -> tuple[float, float]:
        """Seconds by which the gateway's latency should change, and the squares of all errors then."""
        if host not in self.tried:
            self.tried[host] = self._judge(host)
            self._progress.advance()
        return self.tried[host]

    def _squares(self, host: float) -> float:
        return self.judged(float(host))[1]

    def _judge(self, host: float) -> tuple[float, float]:
        slower = with_overhead(self._deployment, Overhead(host, self._gateway))
        pairs: list[tuple[float, float]] = []  # of TTFT: measured, simulated
        squares = 0.0
        for load, (first, token) in zip(self._loads, self._targets, strict=True):
            runs = [prediction.figures() for prediction in predict(slower, load)]
            if any("ttft" not in run or "tpot" not in run for run in runs):
                return 0.0, float("inf")
            mean = {
                metric: [fmean(run[metric][name] for run in runs) for name in STATISTICS]
                for metric in ("ttft", "tpot")
            }
            pairs += zip(first, mean["ttft"], strict=True)
            squares += sum((s / m - 1) ** 2 for m, s in zip(token, mean["tpot"], strict=True))
        wanted = sum((1 - s / m) / m for m, s in pairs) / sum(1 / m**2 for m, _ in pairs)
        shift = max(wanted, -self._gateway)
        return shift, squares + sum(((s + shift) / m - 1) ** 2 for m, s in pairs)
