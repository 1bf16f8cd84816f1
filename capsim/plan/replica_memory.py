"""The memory of one replica of a scenario: by the rules, and as its profile measured it."""

from __future__ import annotations

from capsim.cost import Profile, load_profile
from capsim.cost.profile_memory import MemoryFigure, MemoryPeaks
from capsim.errors import BadInput
from capsim.memory.budget import MemoryFit, fit_memory
from capsim.memory.question import MemoryQuestion
from capsim.memory.readings import NO_READINGS, Peak, Peaks, Reading, Readings
from capsim.scenario import ProfileSettings, Scenario


def count_memory(scenario: Scenario, profile: Profile | None = None) -> MemoryFit:
    """Count the KV blocks of one replica; what its profile measured of the memory stands in place of the rules.

    Args:
        scenario: model, GPU and engine.
        profile: that it names, where it was read already.

    Raises:
        BadInput: the profile is damaged.
        Infeasible: see `fit_memory`.
    """
    profile = profile or profile_of(scenario)
    return fit_memory(memory_question(scenario), _readings(profile, scenario))


def profile_of(scenario: Scenario) -> Profile | None:
    """The profile that a scenario names, read; None where its step cost has another source.

    Raises:
        BadInput: the profile is damaged.
    """
    settings = scenario.step_cost
    return load_profile(settings.path) if isinstance(settings, ProfileSettings) else None


def memory_question(scenario: Scenario) -> MemoryQuestion:
    """What decides the memory of one replica."""
    engine = scenario.engine
    return MemoryQuestion(
        scenario.model,
        scenario.gpu,
        tensor_parallel_size=engine.tensor_parallel_size,
        weight_dtype=engine.dtype,
        kv_dtype=kv_dtype_of(scenario),
        block_size=engine.block_size,
        gpu_memory_utilization=engine.gpu_memory_utilization,
        max_model_len=engine.max_model_len,
        max_num_seqs=engine.max_num_seqs,
        max_num_batched_tokens=engine.max_num_batched_tokens,
        engine_version=engine.version,
        num_gpu_blocks=engine.num_gpu_blocks,
        expert_parallel=engine.enable_expert_parallel,
        pipeline_parallel_size=engine.pipeline_parallel_size,
        enforce_eager=engine.enforce_eager,
        images_per_prompt=engine.limit_mm_per_prompt.image,
        data_parallel_size=engine.data_parallel_size,
    )


def kv_dtype_of(scenario: Scenario) -> str:
    """Of the KV cache; ``auto`` is that of the activations."""
    stated = scenario.engine.kv_cache_dtype
    return "bfloat16" if stated == "auto" else stated


def _readings(profile: Profile | None, scenario: Scenario) -> Readings:
    """The profile's memory; none where there is none, or where it was measured for something else.

    Memory is asked for of settings that a profile does not cover, which is refused only where steps are.
    """
    if profile is None or profile.memory is None or not _holds(profile, scenario):
        return NO_READINGS
    figures = {name: _reading(figure) for name, figure in profile.memory.figures.items()}
    peaks = profile.memory.activations
    return Readings(activations=None if peaks is None else _peaks(peaks), **figures)


def _holds(profile: Profile, scenario: Scenario) -> bool:
    engine = scenario.engine
    if profile.provenance.gpu != scenario.gpu.name:
        return False
    if engine.pipeline_parallel_size > 1 or engine.data_parallel_size > 1:
        return False
    try:
        profile.check(
            scenario.model,
            engine.dtype,
            kv_dtype_of(scenario),
            engine.tensor_parallel_size,
            engine.enable_expert_parallel,
        )
    except BadInput:
        return False
    return True


def _reading(figure: MemoryFigure) -> Reading:
    return Reading(figure.bytes, figure.tag, figure.source, figure.version)


def _peaks(peaks: MemoryPeaks) -> Peaks:
    points = tuple(
        Peak(tokens, sequences, size)
        for tokens, sequences, size in zip(peaks.tokens, peaks.sequences, peaks.bytes, strict=True)
    )
    return Peaks(points, peaks.tag, peaks.source, peaks.version)
