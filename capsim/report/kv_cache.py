"""The KV cache of one run in print: how full it was, what was found in it, and what was computed twice."""

from __future__ import annotations

from capsim.plan.not_modelled import HYBRID
from capsim.report import Json
from capsim.report.number import count, duration, milliseconds, number, share
from capsim.report.table import paragraph, table, terms

FIGURES = ("mean", "p50", "p95", "p99")


def kv_cache_section(result: Json) -> list[str]:
    """Occupancy of the pool, then prefixes, preemptions and tiers as far as there were any."""
    cache, engine = result["summary"]["kv_cache"], result["configuration"]["engine"]
    blocks, pool_share = cache["blocks"], cache["pool_share"]
    rows = [
        ("blocks held", number(blocks["mean"]), number(blocks["p95"]), count(blocks["max"])),
        ("share of the pool", *(share(pool_share[figure]) for figure in ("mean", "p95", "max"))),
    ]
    pool = f"Of {count(cache['pool_blocks'])} blocks of {engine['block_size']} tokens"
    if cache["unfilled_share"] is not None:
        pool += f"; {share(cache['unfilled_share'])} of the room in held blocks had no token yet"
    return [
        "KV cache",
        *table(("a replica, while it works", "mean", "p95", "most"), "lrrr", rows),
        *paragraph(f"{pool}."),
        *_prefixes(result),
        *_warm_and_cold(cache),
    ]


def _prefixes(result: Json) -> list[str]:
    """One sentence where no prompt could find anything, and terms of what did happen."""
    cache, preemptions = result["summary"]["kv_cache"], result["summary"]["counts"]["preemptions"]
    reason = _nothing_to_find(result)
    lines = paragraph(reason) if reason else []
    about = [] if reason else [("prompt tokens found", _found(cache["hit_tokens"], cache))]
    if preemptions:
        about.append(("preemptions", f"{count(preemptions)}: {_again(cache)}"))
    if not reason or preemptions:
        about.append(
            (
                "evictions",
                f"{count(cache['evictions'])} blocks lost content that could be asked for, whole run",
            )
        )
    about += [(f"tier {tier['name']}", _tier(tier)) for tier in cache["tiers"]]
    return lines + (["", *terms(about)] if about else [])


def _nothing_to_find(result: Json) -> str:
    """Why prompts find nothing of one another in the prefix cache; empty if they may."""
    if not result["configuration"]["engine"]["enable_prefix_caching"]:
        return "Prefix caching is off."
    if HYBRID in result["not_modelled"]:
        return "Prefixes of layers with windows or states are not cached here: every prompt is computed."
    if result["summary"]["kv_cache"]["hit_tokens"]:  # sequences of one request share its prompt
        return ""
    reuse = result["demand"]["prefix_reuse"]
    return "The demand records no shared prefixes." if isinstance(reuse, str) or not reuse else ""


def _found(tokens: int, cache: Json) -> str:
    return f"{count(tokens)} of {count(cache['query_tokens'])} ({share(cache['hit_rate'])})"


def _again(cache: Json) -> str:
    return (
        f"{count(cache['recomputed_tokens'])} tokens computed again ({share(cache['recomputed_share'])} "
        f"of all that prefill computed), {count(cache['found_tokens'])} found again"
    )


def _tier(tier: Json) -> str:
    return (
        f"{count(tier['hit_tokens'])} tokens found ({share(tier['hit_rate'])}); "
        f"{count(tier['stored_blocks'])} blocks ({count(tier['stored_tokens'])} tokens) written, "
        f"{count(tier['loaded_blocks'])} ({count(tier['loaded_tokens'])} tokens) read, "
        f"{count(tier['evicted_blocks'])} evicted; {duration(tier['loading_time'])} waited for them"
    )


def _warm_and_cold(cache: Json) -> list[str]:
    """Users' TTFT of requests that found a part of their prompt beside that of the others."""
    if cache["warm_ttft"] is None:
        return []
    rows = [
        (
            name,
            *(milliseconds(cache[f"{key}_ttft"][figure]) for figure in FIGURES),
            count(cache[f"{key}_ttft"]["count"]),
            number(cache[f"{key}_prompt"]),
        )
        for name, key in (("part of the prompt found", "warm"), ("nothing found", "cold"))
    ]
    return ["", *table(("users' TTFT, ms", *FIGURES, "requests", "mean\nprompt"), "lrrrrrr", rows)]
