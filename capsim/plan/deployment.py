from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

import numpy as np

from capsim import __version__
from capsim.catalog.entry import entry_text, gpu_text
from capsim.cost import (
    ConstantCost,
    Efficiency,
    LinearCost,
    Profile,
    ProfileCost,
    RooflineCost,
    StepCost,
    load_profile,
)
from capsim.engine import EngineConfiguration
from capsim.errors import BadInput, Fault
from capsim.memory.budget import MemoryFit
from capsim.plan.engine import engine_configuration
from capsim.plan.replica_memory import count_memory, kv_dtype_of, profile_of
from capsim.plan.synthetic import synthetic_demand
from capsim.scenario import (
    ConstantSettings,
    DemandSettings,
    EngineSettings,
    LinearSettings,
    ProfileSettings,
    RooflineSettings,
    Scenario,
    TraceSettings,
    resolved,
)
from capsim.workload.azure import read_azure
from capsim.workload.demand import Demand, SyntheticDemand, TraceDemand
from capsim.workload.mooncake import read_mooncake
from capsim.workload.requests import Requests
from capsim.workload.trace import Trace

SAMPLE = 20_000
"""Requests drawn where a distribution of lengths is wanted, not a run."""


@dataclass(frozen=True)
class Fitted:
    """A scenario whose replica fits: memory counted and demand read, which is all that needs no step cost.

    Attributes:
        scenario: the question.
        memory: what fits on one GPU.
        engine: one replica's limits.
        demand: where requests come from.
        fingerprint: digest of everything that decides a result: the scenario, the content of model, trace and profile,
            and the version of capsim. Results with the same fingerprint and seed are the same, but for what their
            scenarios' validations say of them.
    """

    scenario: Scenario
    memory: MemoryFit
    engine: EngineConfiguration
    demand: Demand
    fingerprint: str

    @property
    def target_rate(self) -> float:
        """The demand in requests/s, whatever unit the scenario states it in."""
        settings = self.scenario.demand
        if settings.unit == "requests":
            return settings.target
        return settings.target / (settings.samples * self.demand.mean_output)

    @property
    def shares_prefixes(self) -> bool:
        """Whether the demand says which prompts begin alike."""
        demand = self.demand
        if isinstance(demand, TraceDemand):
            return demand.trace.prefixes is not None
        return isinstance(demand, SyntheticDemand) and demand.prefix is not None

    def sample(self) -> Requests:
        """Requests of the demand where the distribution of their lengths is wanted, not a run; always the same."""
        return self.demand.saturating(SAMPLE, self.seed(0))

    def seed(self, replication: int) -> np.random.SeedSequence:
        """Seed of a replication: the same for every rate and fleet, so that comparisons share their randomness."""
        return np.random.SeedSequence([self.scenario.seed, replication])


@dataclass(frozen=True)
class Deployment(Fitted):
    """A scenario made ready to simulate.

    Attributes:
        cost: one replica's step cost.
    """

    cost: StepCost


def deploy(scenario: Scenario) -> Deployment:
    """Build what a scenario describes.

    Raises:
        BadInput: the trace or the profile is wrong, no request of the trace can ever be served, or requests keep
            several beams.
        Infeasible: the weights do not fit, or the KV pool holds less than one longest sequence.
    """
    _refuse_beams(scenario.demand)
    profile = profile_of(scenario)
    ready = _fitted(scenario, profile)
    return Deployment(**vars(ready), cost=build_cost(scenario, profile))


def fitted(scenario: Scenario) -> Fitted:
    """Count a replica's memory and read the demand.

    Raises:
        BadInput: the trace is wrong, no request of it can ever be served, the profile is damaged, or an offload tier
            holds not one block.
        Infeasible: the weights do not fit, or the KV pool holds less than one longest sequence.
    """
    return _fitted(scenario, None)


def _fitted(scenario: Scenario, profile: Profile | None) -> Fitted:
    memory = count_memory(scenario, profile)
    engine = engine_configuration(scenario, memory)
    demand = build_demand(scenario)
    _refuse_hopeless(scenario, engine, demand)
    return Fitted(scenario, memory, engine, demand, _fingerprint(scenario))


def build_cost(scenario: Scenario, profile: Profile | None = None) -> StepCost:
    """The step cost of one replica.

    Args:
        scenario: names the source of the cost.
        profile: that it names, where it was read already.

    Raises:
        BadInput: the profile is damaged, or was measured for another model, dtype or degree of parallelism; or a
            pipeline, whose throughput comes from batches in flight on several stages at once, or data-parallel ranks,
            which step together: neither is modelled.
    """
    settings, engine = scenario.step_cost, scenario.engine
    _refuse_parallelism(engine)
    match settings:
        case ConstantSettings():
            return ConstantCost(settings.seconds)
        case LinearSettings():
            return LinearCost(**vars(settings))
        case ProfileSettings():
            profile = profile or load_profile(settings.path)
            _refuse_other_gpu(profile, scenario)
            return ProfileCost(
                profile,
                scenario.model,
                engine.dtype,
                kv_dtype_of(scenario),
                engine.tensor_parallel_size,
                expert_parallel=engine.enable_expert_parallel,
            )
        case RooflineSettings():
            return RooflineCost(
                scenario.model,
                scenario.gpu,
                engine.tensor_parallel_size,
                engine.dtype,
                kv_dtype_of(scenario),
                _efficiency(settings),
                expert_parallel=engine.enable_expert_parallel,
                routing_skew=settings.routing_skew,
            )


def _refuse_parallelism(engine: EngineSettings) -> None:
    """Refuse what `fitted` counts and no simulation has."""
    if engine.pipeline_parallel_size > 1:
        what = (
            f"{engine.pipeline_parallel_size} stages are not modelled: micro-batches in flight on all of them"
        )
        raise BadInput(Fault("scenario", what, "engine.pipeline_parallel_size", "1"))
    if engine.data_parallel_size > 1:
        what = (
            "steps of data-parallel ranks run in lockstep, which is not modelled: plan each rank as a replica of its "
            "own where the model is dense"
        )
        raise BadInput(Fault("scenario", what, "engine.data_parallel_size", "1"))


def _refuse_other_gpu(profile: Profile, scenario: Scenario) -> None:
    measured = profile.provenance.gpu
    if measured != scenario.gpu.name:
        what = f"the profile was measured on {measured}, the scenario asks for {scenario.gpu.name}"
        raise BadInput(Fault(profile.source, what, key="provenance.gpu"))


def build_demand(scenario: Scenario) -> Demand:
    """The demand's source of requests.

    Raises:
        BadInput: the trace cannot be read.
    """
    trace, synthetic = scenario.demand.trace, scenario.demand.synthetic
    if trace is not None:
        return TraceDemand(_read_trace(trace))
    if synthetic is None:
        raise AssertionError("a scenario has a trace or a synthetic workload")
    return synthetic_demand(synthetic)


def _read_trace(settings: TraceSettings) -> Trace:
    if settings.block_size is None:
        return read_azure(settings.path)
    return read_mooncake(settings.path, settings.block_size)


def _efficiency(settings: RooflineSettings) -> Efficiency:
    named = {
        "gemm_compute": settings.compute_efficiency,
        "gemm_bandwidth": settings.weight_bandwidth_efficiency,
        "attention_bandwidth": settings.kv_bandwidth_efficiency,
        "attention_compute": settings.attention_efficiency,
        "host_overhead": settings.host_overhead,
    }
    return Efficiency(**{name: value for name, value in named.items() if value is not None})


def _refuse_beams(demand: DemandSettings) -> None:
    """Refuse requests that `fitted` counts and no simulation has."""
    if demand.searches_beams:
        what = "beam search is counted by fit, not simulated"
        raise BadInput(Fault("scenario", what, "demand.sampling", "one beam a request"))


def _refuse_hopeless(scenario: Scenario, engine: EngineConfiguration, demand: Demand) -> None:
    """Refuse a demand of which not one request can ever run."""
    lengths = demand.saturating(SAMPLE, np.random.SeedSequence(scenario.seed))
    if engine.admits(lengths.prompt, lengths.output).any():
        return
    shortest = int((lengths.prompt + lengths.output).min())
    raise BadInput(
        Fault(
            "demand",
            f"no request can be served: even the shortest has {shortest} tokens",
            expected=f"at most max_model_len {engine.max_model_len} and the KV pool's "
            f"{engine.usable_blocks * engine.block_size} tokens",
        )
    )


def _fingerprint(scenario: Scenario) -> str:
    """Digest of content: a file counts by what it holds, not by where it lies."""
    record = resolved(scenario)
    record["model"] = scenario.model.name
    if scenario.gpu_file is not None:
        record["gpu"] = gpu_text(scenario.gpu)
    del record["validation"]  # nothing that is simulated depends on it
    digest = hashlib.sha256(f"capsim {__version__}\n".encode())
    digest.update(entry_text(scenario.model).encode())
    for settings, plain in (
        (scenario.demand.trace, record["demand"].get("trace")),
        (scenario.step_cost, record["step_cost"]),
    ):
        path = getattr(settings, "path", None)
        if path is not None:
            plain["path"] = path.name
            digest.update(path.read_bytes())
    digest.update(json.dumps(record, sort_keys=True).encode())
    return digest.hexdigest()[:16]
