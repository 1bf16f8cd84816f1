"""From a scenario file to a checked scenario."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from capsim.catalog import Model
from capsim.catalog.schema import validated_in_part
from capsim.errors import BadInput, Fault
from capsim.fleet.configuration import Failure, FleetConfiguration, FlowControl, Latencies
from capsim.measure.objectives import LatencyObjective, Objectives, QualityObjective
from capsim.scenario.checks import check
from capsim.scenario.composed import composed
from capsim.scenario.demand_section import DemandSection, LengthSection, PrefixSection, TraceSection
from capsim.scenario.engine_section import EngineSection
from capsim.scenario.engine_settings import EngineSettings, LimitSettings, OffloadSettings
from capsim.scenario.file import ScenarioSection
from capsim.scenario.fleet_section import FleetSection
from capsim.scenario.inspection import Inspection
from capsim.scenario.objectives_section import ObjectivesSection, percentile
from capsim.scenario.overrides import overridden
from capsim.scenario.plan_section import PlanSection
from capsim.scenario.references import References
from capsim.scenario.settings import (
    ArrivalSettings,
    ConstantSettings,
    DemandSettings,
    LengthSettings,
    LinearSettings,
    PlanSettings,
    PrefixSettings,
    PrioritySettings,
    ProfileSettings,
    RooflineSettings,
    Scenario,
    StepCostSettings,
    SyntheticSettings,
    TraceSettings,
)
from capsim.scenario.stated_command import stated_command
from capsim.scenario.step_cost_section import (
    ConstantSection,
    LinearSection,
    ProfileSection,
    StepCostSection,
)
from capsim.scenario.version_defaults import SINCE, default_of
from capsim.workload.mooncake import BLOCK_SIZE


def load(path: Path, overrides: Sequence[str] = ()) -> Scenario:
    """Read a scenario file and check all of it.

    Args:
        path: YAML or JSON file; relative paths inside it start from its folder, those of a file that it extends
            from the folder of that file.
        overrides: ``key=value`` settings that win over the file, e.g. ``engine.max_num_seqs=128``.

    Raises:
        BadInput: with every fault of the file and of the overrides.
    """
    faults: list[Fault] = []
    composition = composed(path, faults)
    document = overridden(composition.document, overrides, faults)
    composition = replace(composition, document=document)
    stated = stated_command(composition, faults)
    document = document if stated is None else stated.document
    section, left_out = validated_in_part(ScenarioSection, document, faults)
    references = check(Inspection(section, document, left_out, faults))
    if faults:
        raise BadInput(*_in_order(faults, composition.files))
    scenario = _scenario(section, references)
    return scenario if stated is None else replace(scenario, command_line=stated.command)


def _in_order(faults: Sequence[Fault], files: Sequence[str]) -> list[Fault]:
    """In the order of the files, and of each file; faults of flags, which have no line, after them."""

    def place(fault: Fault) -> tuple[bool, int, int, int]:
        file = files.index(fault.source) if fault.source in files else len(files)
        return fault.line is None, file, fault.line or 0, fault.column or 0

    return sorted(faults, key=place)


def _scenario(section: ScenarioSection, references: References) -> Scenario:
    """The domain's objects of a file without a fault."""
    model, gpu = references.model, references.gpu
    # The checks have reported whatever is missing.
    assert section.name is not None
    assert section.demand is not None
    assert section.slo is not None
    assert model is not None
    assert gpu is not None
    return Scenario(
        name=section.name,
        model=model,
        gpu=gpu,
        engine=_engine(section.engine, model),
        step_cost=_step_cost(section.step_cost, references.profile),
        demand=_demand(section.demand, references.trace),
        fleet=_fleet(section.fleet),
        objectives=_objectives(section.slo),
        plan=_plan(section.plan),
        seed=section.seed,
        model_file=references.model_file,
        gpu_file=references.gpu_file,
        validation=references.validation,
    )


def _engine(engine: EngineSection, model: Model) -> EngineSettings:
    restated = {
        "args",
        "num_gpu_blocks_override",
        "max_num_partial_prefills",
        "max_long_partial_prefills",
    }
    fields = engine.model_dump(exclude=restated)
    fields["max_model_len"] = engine.max_model_len or model.max_position_embeddings
    fields["num_gpu_blocks"] = engine.num_gpu_blocks or engine.num_gpu_blocks_override
    for setting in SINCE:
        if fields[setting] is None:
            fields[setting] = default_of(setting, engine.version)
    fields["kv_offload"] = tuple(OffloadSettings(**tier.model_dump()) for tier in engine.kv_offload)
    fields["limit_mm_per_prompt"] = LimitSettings(**engine.limit_mm_per_prompt.model_dump())
    return EngineSettings(**fields)


def _step_cost(cost: StepCostSection, profile: Path | None) -> StepCostSettings:
    if isinstance(cost, ProfileSection):
        assert profile is not None
        return ProfileSettings(profile)
    if isinstance(cost, ConstantSection):
        return ConstantSettings(cost.seconds)
    if isinstance(cost, LinearSection):
        return LinearSettings(**cost.model_dump(exclude={"source"}))
    return RooflineSettings(**cost.model_dump(exclude={"source"}))


def _demand(demand: DemandSection, trace_file: Path | None) -> DemandSettings:
    assert demand.target is not None
    trace = synthetic = None
    if demand.trace is not None:
        trace = _trace(demand.trace, trace_file)
    if demand.synthetic is not None:
        synthetic = SyntheticSettings(
            arrivals=ArrivalSettings(**demand.synthetic.arrivals.model_dump()),
            prompt_tokens=_lengths(demand.synthetic.prompt_tokens),
            output_tokens=_lengths(demand.synthetic.output_tokens),
            prefix=_prefix(demand.synthetic.prefix),
            priorities=tuple(PrioritySettings(**each.model_dump()) for each in demand.synthetic.priorities),
        )
    return DemandSettings(demand.target.per_second, demand.target.unit, trace, synthetic, demand.sampling)


def _trace(trace: TraceSection, path: Path | None) -> TraceSettings:
    block_size = (trace.block_size or BLOCK_SIZE) if trace.format == "mooncake" else None
    assert path is not None
    return TraceSettings(path, trace.format, block_size)


def _lengths(lengths: LengthSection) -> LengthSettings:
    return LengthSettings(**lengths.model_dump())


def _prefix(prefix: PrefixSection | None) -> PrefixSettings | None:
    return None if prefix is None else PrefixSettings(**prefix.model_dump())


def _fleet(fleet: FleetSection) -> FleetConfiguration:
    fields = fleet.model_dump(exclude={"latencies", "failures", "gateway"})
    return FleetConfiguration(
        **fields,
        latencies=Latencies(**fleet.latencies.model_dump()),
        failures=tuple(Failure(**failure.model_dump()) for failure in fleet.failures),
        gateway=None if fleet.gateway is None else FlowControl(**fleet.gateway.model_dump()),
    )


def _objectives(slo: ObjectivesSection) -> Objectives:
    latency = tuple(
        LatencyObjective(metric, percentile(name), limit)
        for metric in ("ttft", "tpot", "itl", "e2e")
        for name, limit in getattr(slo, metric).items()
    )
    quality = tuple(QualityObjective(name, **figure.model_dump()) for name, figure in slo.quality.items())
    return Objectives(latency, slo.error_rate, quality)


def _plan(plan: PlanSection) -> PlanSettings:
    fields = plan.model_dump(exclude={"drills"})
    return PlanSettings(**fields, drills=tuple(plan.drills))
