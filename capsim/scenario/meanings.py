"""What each key of a scenario file means, for the reference and for editors.

A key means what the settings' docstrings say, and `MEANINGS` where they say nothing to somebody who writes a file.
"""

from __future__ import annotations

import inspect
import re

from capsim.catalog.schema import Section
from capsim.fleet.configuration import FleetConfiguration, FlowControl, Latencies
from capsim.measure.objectives import Objectives
from capsim.scenario import (
    demand_section,
    engine_section,
    engine_settings,
    file,
    fleet_section,
    objectives_section,
    plan_section,
    settings,
    step_cost_section,
)

SECTIONS: tuple[tuple[str, str, type[Section], type | None], ...] = (
    ("Top level", "", file.ScenarioSection, None),
    ("`engine`", "engine", engine_section.EngineSection, engine_settings.EngineSettings),
    (
        "Each of `engine.kv_offload`",
        "engine.kv_offload",
        engine_section.OffloadSection,
        engine_settings.OffloadSettings,
    ),
    (
        "`engine.limit_mm_per_prompt`",
        "engine.limit_mm_per_prompt",
        engine_section.LimitsSection,
        engine_settings.LimitSettings,
    ),
    (
        "`step_cost`, source: roofline",
        "step_cost",
        step_cost_section.RooflineSection,
        settings.RooflineSettings,
    ),
    ("`step_cost`, source: profile", "step_cost", step_cost_section.ProfileSection, None),
    ("`step_cost`, source: linear", "step_cost", step_cost_section.LinearSection, settings.LinearSettings),
    ("`step_cost`, source: constant", "step_cost", step_cost_section.ConstantSection, None),
    ("`demand`", "demand", demand_section.DemandSection, settings.DemandSettings),
    ("`demand.trace`", "demand.trace", demand_section.TraceSection, settings.TraceSettings),
    ("`demand.synthetic`", "demand.synthetic", demand_section.SyntheticSection, None),
    (
        "`demand.synthetic.arrivals`",
        "demand.synthetic.arrivals",
        demand_section.ArrivalSection,
        settings.ArrivalSettings,
    ),
    (
        "`demand.synthetic.prefix`",
        "demand.synthetic.prefix",
        demand_section.PrefixSection,
        settings.PrefixSettings,
    ),
    (
        "Each of `demand.synthetic.priorities`",
        "demand.synthetic.priorities",
        demand_section.PrioritySection,
        settings.PrioritySettings,
    ),
    ("Lengths, distribution: fixed", "lengths", demand_section.FixedSection, settings.LengthSettings),
    ("Lengths, distribution: uniform", "lengths", demand_section.UniformSection, settings.LengthSettings),
    ("Lengths, distribution: lognormal", "lengths", demand_section.LognormalSection, settings.LengthSettings),
    ("Lengths, distribution: geometric", "lengths", demand_section.GeometricSection, settings.LengthSettings),
    ("`fleet`", "fleet", fleet_section.FleetSection, FleetConfiguration),
    ("`fleet.latencies`", "fleet.latencies", fleet_section.LatenciesSection, Latencies),
    ("`fleet.gateway`", "fleet.gateway", fleet_section.GatewaySection, FlowControl),
    ("Each of `fleet.failures`", "fleet.failures", fleet_section.FailureSection, None),
    ("`slo`", "slo", objectives_section.ObjectivesSection, Objectives),
    ("Each of `slo.quality`", "slo.quality", objectives_section.QualitySection, None),
    ("`plan`", "plan", plan_section.PlanSection, settings.PlanSettings),
)
"""Title, path, schema, and the class whose docstring says what the keys mean."""

MEANINGS = {
    "version": "Version of the scenario format.",
    "extends": "A scenario that this one changes: a file beside it, an absolute path, or a shipped one.",
    "name": "What to call the scenario; also names the run folder.",
    "model": "A model of `configs/models`, by catalog name or Hugging Face name, or a file such as `./mine.yaml`.",
    "gpu": "A GPU of `configs/gpus`, by catalog name or alias, or a file such as `./mine.yaml`.",
    "engine": "One replica's engine.",
    "step_cost": "What a step takes.",
    "demand": "What is asked of the service.",
    "fleet": "Replicas, router, time outside the engine, failures.",
    "slo": "Objectives; all must hold at once.",
    "plan": "How the replica count is found and proved.",
    "validation": "`validation.json` of `capsim validate`, beside the scenario or absolute: a plan tells its errors.",
    "seed": "Random seed; results with the same fingerprint and seed are the same.",
    "engine.name": "The engine that is simulated.",
    "engine.version": "Recorded with every result; decides what the engine holds beside weights and KV cache.",
    "engine.args": "The command line that starts the server, from `vllm serve` on: says the keys that it settles.",
    "engine.dtype": "Of the weights.",
    "engine.kv_cache_dtype": "Of the KV cache; `auto` is 16 bit.",
    "engine.num_gpu_blocks": "KV blocks as the engine prints them at start-up; wins over the memory model.",
    "engine.async_scheduling": "On by default since vLLM 0.14: it follows `version`. vLLM forces it off on CPUs.",
    "engine.scheduler_reserve_full_isl": "On by default since vLLM 0.19: it follows `version`.",
    "engine.enable_chunked_prefill": "An engine without it is not modelled in this version.",
    "engine.num_gpu_blocks_override": "vLLM's name for `num_gpu_blocks`; state one of them.",
    "engine.watermark": "Share of the KV blocks that an admission leaves free; newer versions of vLLM have it.",
    "engine.max_num_partial_prefills": "vLLM's V1 engine has no other.",
    "engine.max_long_partial_prefills": "vLLM's V1 engine has no other.",
    "engine.scheduling_policy": "In order of arrival, or the smallest priority of the demand first.",
    "engine.kv_offload": "Tiers that KV is written to when it leaves the GPU, and found in; the nearest first.",
    "engine.limit_mm_per_prompt": "What a prompt may hold beside text; memory is set aside for it.",
    "engine.kv_offload.name": "What to call the tier.",
    "engine.kv_offload.capacity": "What it holds, of the whole replica.",
    "engine.kv_offload.bandwidth": "At which it is read, of the whole replica.",
    "engine.kv_offload.conversion": "Time that each block takes on top.",
    "engine.limit_mm_per_prompt.image": "Most images of a prompt; their tokens are part of its length. 0: text only.",
    "step_cost.source": "Chooses these keys.",
    "step_cost.path": "Profile file, beside the scenario or absolute.",
    "step_cost.seconds": "Of every step.",
    "demand.target": "What the fleet must serve.",
    "demand.sampling": "Recorded; `n` and `best_of` say how many sequences a request has. Beams are counted by fit.",
    "demand.synthetic": "Or a synthetic workload.",
    "demand.synthetic.arrivals.process": "Distribution of the gaps between arrivals.",
    "demand.synthetic.arrivals.burstiness": "Shape of the gamma distribution; 1 is Poisson, less is burstier.",
    "demand.trace.path": "Trace file: beside the scenario, absolute, or the name of a shipped one.",
    "demand.trace.format": "The file's format; mooncake traces say which prompts begin alike.",
    "demand.trace.block_size": "Tokens that one hash id of a mooncake trace stands for.",
    "demand.synthetic.arrivals": "How requests arrive.",
    "demand.synthetic.prompt_tokens": "Prompt lengths.",
    "demand.synthetic.output_tokens": "Output lengths.",
    "demand.synthetic.priorities": "Priorities of requests, with their shares, which sum up to 100 %.",
    "demand.synthetic.prefix": "Prefixes that prompts begin with, such as system prompts.",
    "lengths.distribution": "Chooses these keys.",
    "lengths.value": "Every length, tokens.",
    "lengths.low": "Shortest length, tokens.",
    "lengths.high": "Longest length, tokens.",
    "lengths.mean": "Mean length, tokens; of a lognormal before `max` cuts.",
    "lengths.cv": "Standard deviation over mean.",
    "lengths.max": "Longer ones count as this long, tokens.",
    "fleet.replicas": "Size of the fleet in `capsim run`; a plan finds its own.",
    "fleet.router": "Which replica a request goes to: each in turn, or the one with the fewest unfinished requests.",
    "fleet.latencies": "Time outside the engine.",
    "fleet.gateway": "Flow control: how many requests go on to the replicas, and how many wait or are rejected.",
    "fleet.failures": "Replicas that die, and when; happen in `capsim run`, not in a plan.",
    "fleet.failures.replica": "Which replica, from 0.",
    "fleet.failures.at": "When it dies, from the start of the run.",
    "fleet.failures.down_for": "Until it is repaired; it then loads its model.",
    **{
        f"slo.{metric}": f"Percentiles of {metric.upper()} as the user observes it."
        for metric in ("ttft", "tpot")
    },
    "slo.itl": "Percentiles of the gaps between tokens, over all gaps.",
    "slo.e2e": "Percentiles of the time to the last token, as the user observes it.",
    "slo.error_rate": "Largest share of the requests that may be rejected or lost.",
    "slo.quality": "Figures that you state for this configuration, and the least that will do.",
    "plan.drills": "Failures replayed against the fleet at the target.",
    "plan.reserve": "The full fleet must hold the target and this much more.",
    "plan.duration": "Simulated time of one replication.",
    "plan.literal_replay": "Replay the trace itself, and resample it at its own pace, beside the replications.",
    "plan.max_replicas": "Largest fleet that is tried.",
    "plan.replications": "Most replications of one point.",
    "slo.quality.value": "The figure.",
    "slo.quality.minimum": "The least that will do.",
}


def meanings(path: str, described: type | None) -> dict[str, str]:
    """What the keys of a section mean, by name.

    Args:
        path: of the section, as in `SECTIONS`.
        described: the class whose docstring says what its keys mean; None: `MEANINGS` alone does.
    """
    start = f"{path}." if path else ""
    own = {key.removeprefix(start): text for key, text in MEANINGS.items() if key.startswith(start)}
    return {**_attributes(described), **own}


def _attributes(described: type | None) -> dict[str, str]:
    """What a class's docstring says of each attribute."""
    said: dict[str, str] = {}
    if described is None:
        return said
    names: list[str] = []
    for line in (inspect.getdoc(described) or "").partition("Attributes:\n")[2].splitlines():
        begun = re.fullmatch(r" {4}([a-z_0-9, ]+): (.*)", line)
        if begun:
            names = begun[1].split(", ")
            said |= dict.fromkeys(names, begun[2])
        elif line.startswith(" " * 8):
            said |= {name: f"{said[name]} {line.strip()}" for name in names}
    return {name: _sentence(text) for name, text in said.items()}


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}".replace("``", "`")
