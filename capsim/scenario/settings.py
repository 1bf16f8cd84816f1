"""What a scenario settles, as plain values in seconds, bytes and tokens; every default is filled in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from capsim.catalog import Gpu, Model
from capsim.fleet.configuration import FleetConfiguration
from capsim.measure.objectives import Objectives
from capsim.scenario.command_line import CommandLine
from capsim.scenario.engine_settings import EngineSettings

Scalar = str | int | float | bool | None


@dataclass(frozen=True)
class RooflineSettings:
    """Step cost from data sheets; what is None keeps the roofline's own efficiency.

    Attributes:
        compute_efficiency: share of the dense compute rate that the matrix products reach.
        weight_bandwidth_efficiency: share of the memory bandwidth at which weights are read.
        kv_bandwidth_efficiency: share of the memory bandwidth at which the KV cache is read.
        attention_efficiency: share of the dense compute rate that prefill attention reaches.
        host_overhead: seconds of each step in which the GPU waits for the host.
        routing_skew: exponent of the power law by which tokens choose experts; 0 is uniform.
    """

    compute_efficiency: float | None = None
    weight_bandwidth_efficiency: float | None = None
    kv_bandwidth_efficiency: float | None = None
    attention_efficiency: float | None = None
    host_overhead: float | None = None
    routing_skew: float = 0.0


@dataclass(frozen=True)
class ProfileSettings:
    """Step cost measured; `path` is the absolute path of the profile."""

    path: Path


@dataclass(frozen=True)
class ConstantSettings:
    """Every step takes `seconds`."""

    seconds: float


@dataclass(frozen=True)
class LinearSettings:
    """Seconds of a step as a sum.

    Attributes:
        base: per step.
        per_prefill_token: per prompt token computed.
        per_chunk: per prefill chunk.
        per_query_key_pair: per pair of query and key in the chunks' attention.
        per_decode: per decoding sequence.
        per_context_token: per token of context that decodes read.
    """

    base: float = 0.0
    per_prefill_token: float = 0.0
    per_chunk: float = 0.0
    per_query_key_pair: float = 0.0
    per_decode: float = 0.0
    per_context_token: float = 0.0


StepCostSettings = RooflineSettings | ProfileSettings | ConstantSettings | LinearSettings


@dataclass(frozen=True)
class TraceSettings:
    """A recorded trace.

    Attributes:
        path: absolute path of its file.
        format: of the file: ``azure`` or ``mooncake``.
        block_size: tokens that one hash id of a mooncake trace stands for; None in other formats.
    """

    path: Path
    format: str
    block_size: int | None = None


@dataclass(frozen=True)
class ArrivalSettings:
    """How synthetic requests arrive.

    Attributes:
        process: ``poisson``, ``constant`` or ``gamma``.
        burstiness: shape of the gamma distribution of the gaps; 1 is Poisson, less is burstier. None elsewhere.
    """

    process: str = "poisson"
    burstiness: float | None = None


@dataclass(frozen=True)
class LengthSettings:
    """A distribution of lengths in tokens; what a distribution does not have is None.

    Attributes:
        distribution: ``fixed``, ``uniform``, ``lognormal`` or ``geometric``.
        value: of ``fixed``.
        low: least of ``uniform``.
        high: greatest of ``uniform``.
        mean: of ``lognormal`` and ``geometric``, before `max` cuts.
        cv: coefficient of variation of ``lognormal``.
        max: longest length of ``lognormal``.
    """

    distribution: str
    value: int | None = None
    low: int | None = None
    high: int | None = None
    mean: float | None = None
    cv: float | None = None
    max: int | None = None


@dataclass(frozen=True)
class PrefixSettings:
    """Prefixes that synthetic prompts begin with, such as system prompts.

    Attributes:
        tokens: length of each prefix, part of the prompt's length; a shorter prompt shares nothing.
        count: different prefixes, each as likely.
        share: share of the requests that begin with one.
    """

    tokens: int
    count: int = 8
    share: float = 1.0


@dataclass(frozen=True)
class PrioritySettings:
    """Requests of one priority.

    Attributes:
        priority: the smaller goes first, where the engine's scheduling policy is ``priority``.
        share: of the requests that have it.
    """

    priority: int
    share: float


@dataclass(frozen=True)
class SyntheticSettings:
    """A synthetic workload; without `prefix` no two prompts share anything, without `priorities` all are alike."""

    arrivals: ArrivalSettings
    prompt_tokens: LengthSettings
    output_tokens: LengthSettings
    prefix: PrefixSettings | None = None
    priorities: tuple[PrioritySettings, ...] = ()


@dataclass(frozen=True)
class DemandSettings:
    """What is to be served; exactly one of `trace` and `synthetic` is set.

    Attributes:
        target: demand per second.
        unit: what it counts: ``requests`` or ``output_tokens``.
        trace: the recorded trace that the requests come from.
        synthetic: or how they are made.
        sampling: sampling parameters, recorded with every result; what they ask of the engine is `samples` and
            `searches_beams`.
    """

    target: float
    unit: str
    trace: TraceSettings | None = None
    synthetic: SyntheticSettings | None = None
    sampling: Mapping[str, Scalar] = field(default_factory=dict)

    @property
    def samples(self) -> int:
        """Sequences that a request generates: the larger of ``n`` and ``best_of``."""
        return max(int(self.sampling.get(name) or 1) for name in ("n", "best_of"))

    @property
    def searches_beams(self) -> bool:
        """Whether a request keeps several beams: ``use_beam_search``, or a ``beam_width`` above 1."""
        width = int(self.sampling.get("beam_width") or 1)
        return self.sampling.get("use_beam_search") is True or width > 1


@dataclass(frozen=True)
class PlanSettings:
    """How the replica count is found and proved.

    Attributes:
        reserve: share of the demand that the full fleet must hold on top of it.
        drills: failures replayed against the fleet at the demand, e.g. ``replica_missing``.
        duration: simulated seconds of one replication.
        replications: most replications of one point.
        max_replicas: largest fleet that is tried.
        resolution: width of the operating point's bracket, as a share of it.
        literal_replay: the trace itself is replayed beside its resamples.
    """

    reserve: float
    drills: tuple[str, ...]
    duration: float
    replications: int
    max_replicas: int
    resolution: float
    literal_replay: bool


@dataclass(frozen=True)
class Scenario:
    """Everything that one question needs.

    Attributes:
        model_file: absolute path of the file that describes the model; None: the catalog does.
        gpu_file: of the one that describes the GPU; None: the catalog does.
        validation: absolute path of the ``validation.json`` that tells how far off predictions for this service were;
            None: it was not validated.
        command_line: the command line that the engine's settings come from, where the scenario states one; the
            settings themselves are in `engine`.
    """

    name: str
    model: Model
    gpu: Gpu
    engine: EngineSettings
    step_cost: StepCostSettings
    demand: DemandSettings
    fleet: FleetConfiguration
    objectives: Objectives
    plan: PlanSettings
    seed: int
    model_file: Path | None = None
    gpu_file: Path | None = None
    validation: Path | None = None
    command_line: CommandLine | None = field(default=None, compare=False)
