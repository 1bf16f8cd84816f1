"""Speed of the engine beside that of the plain reference: ``python -m tests.bench``. Printed, never asserted."""

from __future__ import annotations

from dataclasses import replace

from capsim.catalog import load_gpu, load_model
from capsim.catalog.data import data_path
from capsim.cost import LinearCost, ProfileCost, RooflineCost, StepCost, load_profile
from capsim.engine import EngineConfiguration
from tests.bench.load import Load
from tests.bench.lookups import lookups
from tests.bench.measurement import best, leaping, plain

RATES = (1, 4, 10, 20, 28, 33)
AMPLE = EngineConfiguration(30_000)
STARVED = EngineConfiguration(6_000)
LEAPING_REQUESTS = 5_000
PLAIN_REQUESTS = 1_000

COLUMNS = (
    f"{'req/s':>6} | {'req/CPU s':>9} {'plans':>6} {'steps':>6} {'touched':>8} {'preempt.':>8}"
    f" | {'req/CPU s':>9} {'steps':>6} {'touched':>8} | {'ratio':>6}\n"
    f"{'':>6} | {'':>9} {'/req':>6} {'/req':>6} {'/plan':>8} {'/req':>8}"
    f" | {'':>9} {'/req':>6} {'/step':>8} | {'speed':>6}"
)


def table(title: str, engine: EngineConfiguration, cost: StepCost, ragged: bool) -> None:
    """Print one line a rate: the leaping engine, the plain one, and the ratio of their speeds."""
    print(f"\n{title}\n{'':>6} | {'leaping':^41} | {'step by step':^25} |\n{COLUMNS}")
    for rate in RATES:
        load = Load(rate, engine, cost, ragged=ragged)
        fast, slow = best(leaping, load, LEAPING_REQUESTS), best(plain, load, PLAIN_REQUESTS)
        print(
            f"{rate:>6} | {fast.speed:>9,.0f} {fast.plans_per_request:>6.2f} {fast.steps_per_request:>6.1f}"
            f" {fast.touched_per_plan:>8.2f} {fast.preemptions / fast.requests:>8.3f}"
            f" | {slow.speed:>9,.0f} {slow.steps_per_request:>6.1f} {slow.touched_per_plan:>8.1f}"
            f" | {fast.speed / slow.speed:>6.1f}",
            flush=True,
        )


def caching(cost: StepCost) -> None:
    """Print what the prefix cache costs where prompts share nothing: off and on in one line a rate."""
    print("\nPrefix caching off and on, prompts share nothing, linear cost, 30,000 blocks of 16 tokens\n")
    print(f"{'req/s':>6} {'off, req/CPU s':>15} {'on, req/CPU s':>14} {'on / off':>9}")
    on = replace(AMPLE, enable_prefix_caching=True)
    for rate in RATES:
        without, with_it = (
            best(leaping, Load(rate, engine, cost), LEAPING_REQUESTS).speed for engine in (AMPLE, on)
        )
        print(f"{rate:>6} {without:>15,.0f} {with_it:>14,.0f} {with_it / without:>9.2f}", flush=True)


def sharing(cost: StepCost) -> None:
    """Print what long shared prompts cost, by size of a block: it is a number of runs, not of blocks."""
    print(
        "\n8,192 tokens in and 128 out, 3 req/s, 480,000 tokens of KV; 15 of 16 tokens of a prompt are shared\n"
    )
    print(f"{'':<40} {'block':>6} {'req/CPU s':>10} {'plans/req':>10} {'cached':>7}")
    cases = (
        ("nothing shared", 0, 1),
        ("16 prompts", 16, 1),
        ("16 prompts in 20 parts", 16, 20),
        ("200 prompts", 200, 1),
    )
    for name, prefixes, turns in cases:
        for block in (16, 256):
            engine = EngineConfiguration(480_000 // block, block, enable_prefix_caching=True)
            load = Load(3.0, engine, cost, 8192, 128, prefixes=prefixes, turns=turns)
            found = best(leaping, load, 3_000)
            print(
                f"{name:<40} {block:>6} {found.speed:>10,.0f} {found.plans_per_request:>10.2f} {found.cached:>7.1%}",
                flush=True,
            )


def measured(name: str) -> StepCost:
    """The cost of a shipped profile of Llama-3.1-8B in bfloat16 on one GPU."""
    profile = load_profile(data_path("profiles", name))
    return ProfileCost(profile, load_model("llama-3.1-8b"), "bfloat16", "bfloat16", 1)


def print_lookups(costs: dict[str, StepCost]) -> None:
    """Print one line a step cost."""
    print("\nOne look-up of a step cost, microseconds, best of 5 repeats\n")
    for name, cost in costs.items():
        times = "  ".join(f"{what} {time:.2f}" for what, time in lookups(cost).items())
        print(f"{name:<50} {times}", flush=True)


def main() -> None:
    """Print all tables: two step costs, an ample and a starved pool."""
    print(
        "One replica, Poisson arrivals, 512 tokens in and 256 out, blocks of 16 tokens. Best of 3 runs by CPU time,"
        f"\n{LEAPING_REQUESTS:,} requests leaping and {PLAIN_REQUESTS:,} step by step."
    )
    costs: dict[str, StepCost] = {
        "linear cost": LinearCost(base=5.5e-3, per_prefill_token=3.2e-5, per_context_token=3.5e-8),
        "roofline of Llama-3.1-8B on H200": RooflineCost(load_model("llama-3.1-8b"), load_gpu("h200")),
    }
    for name, cost in costs.items():
        table(f"{name}, 30,000 blocks, equal lengths", AMPLE, cost, ragged=False)
        table(f"{name}, 6,000 blocks, ragged lengths", STARVED, cost, ragged=True)
    caching(costs["linear cost"])
    sharing(costs["linear cost"])
    costs |= {
        "profile of an H200": measured("h200-llama-3.1-8b-bf16-tp1.json"),
        "profile of an RTX PRO 6000 (mixed grid, unequal lengths)": measured(
            "rtxpro6000-llama-3.1-8b-bf16-tp1.json"
        ),
    }
    print_lookups(costs)


if __name__ == "__main__":
    main()
