"""A check against times in the wrong unit: no step can be faster than its weights can be read."""

from __future__ import annotations

from capsim.catalog import Gpu, Model
from capsim.cost import BatchShape, Profile, ProfileCost, RooflineCost
from capsim.errors import BadInput, Fault
from capsim.units import format_duration

SLOWEST = 100.0
"""A decode step of one sequence that takes so many times longer than reading the weights is no measurement of this
model: the slowest engines without CUDA graphs need about 5 times as long."""


def refuse_wrong_unit(profile: Profile, model: Model, gpu: Gpu, source: str) -> float:
    """Refuse a profile whose decode step of one sequence contradicts the GPU's data sheet.

    Args:
        profile: what was imported.
        model: its model.
        gpu: its data sheet.
        source: what was read, for the message.

    Returns:
        Seconds of that step, without the host, over seconds of reading the weights at the data sheet's bandwidth.

    Raises:
        BadInput: the step is faster than the memory allows, or `SLOWEST` times slower.
    """
    stated = profile.provenance
    ranks, dtypes = stated.tensor_parallel_size, (stated.dtype, stated.kv_dtype)
    cost = ProfileCost(profile, model, *dtypes, ranks, expert_parallel=stated.expert_parallel)
    seconds = cost.step(BatchShape((), 1, profile.ranges["context"][0])) - profile.host
    roofline = RooflineCost(model, gpu, ranks, *dtypes, expert_parallel=stated.expert_parallel)
    least = roofline.operators.streamed_weight_bytes() / gpu.memory_bandwidth
    ratio = seconds / least
    if 1 <= ratio <= SLOWEST:
        return ratio
    facts = (
        f"a decode step of one sequence takes {format_duration(seconds)}, and reading {model.name}'s weights at the "
        f"data sheet's bandwidth of {gpu.name} takes {format_duration(least)}"
    )
    raise BadInput(Fault(source, f"{facts}: {_suspicion(ratio)}", expected="times in the unit of the format"))


def _suspicion(ratio: float) -> str:
    if ratio > SLOWEST:
        return f"too slow by {ratio:,.0f}: are the times in a smaller unit, such as nanoseconds?"
    fast = f"too fast by {1 / ratio:,.3g}"
    if ratio > 1 / 20:  # a wrong unit is off by 1000; less than 20 is another model, dtype or GPU
        return f"{fast}: is it another model, dtype, GPU or number of ranks?"
    unit = "milliseconds" if ratio > 1e-4 else "seconds"
    return f"{fast}: is it in {unit}?"
