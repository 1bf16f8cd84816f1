from __future__ import annotations

from capsim.plan.deployment import build_demand
from capsim.scenario import load
from capsim.workload.demand import SyntheticDemand, TraceDemand
from capsim.workload.shared_prefixes import SharedPrefixes
from tests.scenario.test_load import SHIPPED

MOONCAKE = "demand.trace={path: mooncake_conversation_first2000, format: mooncake}"


def test_an_azure_trace_has_no_prefixes() -> None:
    demand = build_demand(load(SHIPPED))
    assert isinstance(demand, TraceDemand)
    assert demand.trace.prefixes is None


def test_a_mooncake_trace_is_read_with_its_block_size() -> None:
    for overrides, block in (([MOONCAKE], 512), ([MOONCAKE, "demand.trace.block_size=256"], 256)):
        demand = build_demand(load(SHIPPED, overrides))
        assert isinstance(demand, TraceDemand)
        assert demand.trace.hash_block == block
        assert demand.trace.prefixes is not None
        assert demand.trace.prefixes.ends.min() == block


def test_synthetic_prompts_begin_with_the_stated_prefixes() -> None:
    lengths = "{distribution: fixed, value: 600}"
    synthetic = f"{{prompt_tokens: {lengths}, output_tokens: {lengths}}}"
    overrides = ["demand.trace=null", f"demand.synthetic={synthetic}"]
    plain = build_demand(load(SHIPPED, overrides))
    assert isinstance(plain, SyntheticDemand)
    assert plain.prefix is None
    demand = build_demand(load(SHIPPED, [*overrides, "demand.synthetic.prefix={tokens: 100, share: 50%}"]))
    assert isinstance(demand, SyntheticDemand)
    assert demand.prefix == SharedPrefixes(100, count=8, share=0.5)
