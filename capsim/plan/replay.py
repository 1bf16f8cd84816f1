from __future__ import annotations

from dataclasses import dataclass

from capsim.plan.experiment import Experiment, Sample
from capsim.plan.replicas import ReplicaCount
from capsim.plan.runner import Runner
from capsim.workload.demand import TraceDemand

MOST_REQUESTS = 500_000
"""Of one replay: about 10 s of one core, and 200 MB."""


@dataclass(frozen=True)
class Replay:
    """The recorded demand against the chosen fleet, in one run.

    Attributes:
        kind: ``literal``: the trace itself, its time compressed or stretched to the rate. ``own pace``: a resample
            over the trace's whole duration, so that peaks last as long as recorded, at the load that asks most of a
            replica.
        load: which load of the fleet it stands for.
        replicas: that serve it.
        rate: requests/s.
        duration: seconds.
        sample: what was found.
    """

    kind: str
    load: str
    replicas: int
    rate: float
    duration: float
    sample: Sample

    @property
    def passed(self) -> bool:
        """Whether every gate passed in this one run."""
        return bool(self.sample["passed"])


def replays(runner: Runner, count: ReplicaCount) -> tuple[Replay, ...]:
    """What resamples leave out: bursts shorter than a bin, and how long a peak lasts.

    None for a synthetic demand, or where the scenario wants none.
    """
    deployment = runner.deployment
    demand, settings = deployment.demand, deployment.scenario.plan
    if not (settings.literal_replay and isinstance(demand, TraceDemand)):
        return ()
    trace = demand.trace
    wanted = []
    for trial in count.chosen.trials:
        if trial.point is not None:
            literal = Experiment("literal", trial.point.replicas, trial.point.rate)
            wanted.append(("literal", trial.load, trace.duration * trace.rate / literal.rate, literal))
    trial, point = count.chosen.hardest
    if trace.duration > settings.duration and trace.duration * point.rate <= MOST_REQUESTS:
        paced = Experiment("resample", point.replicas, point.rate, duration=trace.duration)
        wanted.append(("own pace", trial.load, trace.duration, paced))
    samples = runner.run("replay", [experiment for _, _, _, experiment in wanted])
    return tuple(
        Replay(kind, load, experiment.replicas, experiment.rate, duration, sample)
        for (kind, load, duration, experiment), sample in zip(wanted, samples, strict=True)
    )
