from __future__ import annotations

from collections.abc import Iterator

from capsim.engine import EngineConfiguration
from capsim.engine.footprint import Footprint
from capsim.engine.offload import Tier
from capsim.errors import BadInput, Fault
from capsim.memory.budget import MemoryFit
from capsim.scenario import Scenario
from capsim.units import format_size


def engine_configuration(scenario: Scenario, memory: MemoryFit) -> EngineConfiguration:
    """One replica's limits as the scenario states them and its memory leaves them.

    Prefixes of layers with windows or states are not cached: every prompt of such a model is computed.

    Raises:
        BadInput: groups of layers that cannot be simulated, or an offload tier that holds not one block.
    """
    engine, footprint = scenario.engine, _footprint(scenario, memory)
    return EngineConfiguration(
        num_gpu_blocks=memory.num_gpu_blocks,
        block_size=footprint.block_size,
        max_num_seqs=engine.max_num_seqs,
        max_num_batched_tokens=engine.max_num_batched_tokens,
        max_model_len=engine.max_model_len,
        reserve_full_prompt=engine.scheduler_reserve_full_isl,
        enable_prefix_caching=engine.enable_prefix_caching and footprint.plain,
        watermark=engine.watermark,
        async_scheduling=engine.async_scheduling,
        tiers=tuple(_tiers(scenario, memory)),
        long_prefill_token_threshold=engine.long_prefill_token_threshold,
        scheduling_policy=engine.scheduling_policy,
        groups=footprint,
    )


def _footprint(scenario: Scenario, memory: MemoryFit) -> Footprint:
    try:
        return Footprint.of(memory.layout)
    except ValueError as error:
        what = f"{scenario.model.name}: {error}; its memory is counted, not simulated"
        raise BadInput(Fault("scenario", what, "model")) from error


def _tiers(scenario: Scenario, memory: MemoryFit) -> Iterator[Tier]:
    """Offload tiers in blocks; each rank writes its own part of a block, so that copies of KV heads count."""
    engine = scenario.engine
    ranks = engine.tensor_parallel_size * engine.pipeline_parallel_size
    size = memory.layout.bytes_per_block * ranks
    for index, tier in enumerate(engine.kv_offload):
        if tier.capacity < size:
            what = f"{format_size(tier.capacity)} hold not one KV block"
            key = f"engine.kv_offload[{index}].capacity"
            raise BadInput(Fault("scenario", what, key, f"at least {format_size(size)}"))
        seconds = size / tier.bandwidth + tier.conversion
        yield Tier(tier.name, tier.capacity // size, seconds, tier.latency)
