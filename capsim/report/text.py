"""Results as plain text, the answer first: a plan, one run, or memory alone."""

from __future__ import annotations

import math

from capsim.report import Json
from capsim.report.capacity import capacity_section, changes_section, factors_section, log_section
from capsim.report.confidence import confidence_section, unservable
from capsim.report.evidence import (
    baseline_section,
    demand_section,
    fleets_section,
    memory_section,
    rates_section,
    sweep_section,
    target,
)
from capsim.report.gates import VERDICTS, limit
from capsim.report.named import named
from capsim.report.number import count
from capsim.report.run import run_section
from capsim.report.table import paragraph


def plan_text(result: Json) -> str:
    """A plan: the answer, what binds, how sure that is, and what it rests on; lines of at most 100 columns.

    Args:
        result: as `capsim.plan.plan_result.plan_result` gives it.
    """
    point = result["operating_point"]
    return _document(
        _title(result),
        ["ANSWER", *_answer(result)],
        ["BINDING CONSTRAINT", *paragraph(_sentence(result["binding"]["statement"]))],
        ["HOW SURE", *confidence_section(result)],
        ["EVIDENCE"],
        demand_section(result["demand"]),
        memory_section(result["memory"]),
        baseline_section(result["baseline"]),
        rates_section(result),
        sweep_section(result["sweep"], point["rate"]),
        fleets_section(result["fleets"]),
        _identity(result),
    )


def run_text(result: Json) -> str:
    """One simulation: how it stood, latency, throughput, and what was simulated; at most 100 columns.

    Args:
        result: as `capsim.plan.run_result.run_result` gives it.
    """
    return _document(
        _title(result), *run_section(result), demand_section(result["demand"]), _identity(result)
    )


def fit_text(result: Json) -> str:
    """Whether the model fits and what remains for the KV cache; lines of at most 100 columns.

    Args:
        result: as `capsim.plan.fit_result.fit_result` gives it.
    """
    engine, memory = result["configuration"]["engine"], result["memory"]
    pools, tokens = engine.get("data_parallel_size", 1), memory["kv_tokens"]
    times = count(memory["sequences"][-1]["concurrency"])
    answer = (
        f"It fits: {count(pools * tokens)} tokens of KV cache a replica, and a sequence of max_model_len "
        f"{count(engine['max_model_len'])} tokens {times} times"
    )
    answer += "." if pools == 1 else f" in each of {pools} pools; what follows is of one pool."
    lines = ["ANSWER", *paragraph(answer)]
    if result["unservable_share"]:
        lines += paragraph(unservable(result["unservable_share"]))
    log = [] if result["log"] is None else [log_section(result["log"])]
    return _document(
        _title(result),
        lines,
        memory_section(memory),
        *log,
        capacity_section(result["capacity"], memory["max_num_seqs"]),
        changes_section(result["changes"], result["capacity"]),
        factors_section(result["factors"]),
        _identity(result),
    )


def _answer(result: Json) -> list[str]:
    answer = result["answer"]
    replicas, gpus = answer["replicas"], answer["gpus"]
    configuration = result["configuration"]
    held = (
        f"{_plural(replicas, 'replica')} ({_plural(gpus, 'GPU')}: {gpus // replicas} x "
        f"{named(configuration, 'gpu')} each) serve{'s' if replicas == 1 else ''} {target(result['demand'])} "
        "inside every objective, with "
        f"{configuration['plan']['reserve']} in reserve."
    )
    lines = paragraph(held) + (_most(result["served"]) if "served" in result else [])
    for trial in answer["chosen"]["trials"]:
        lines += paragraph(f"{trial['name']}: {trial['load']} {VERDICTS[trial['verdict']]}", "-")
    gates = ", ".join(f"{gate['name']} {limit(gate)}" for gate in result["operating_point"]["gates"])
    lines += paragraph(f"objectives: {gates}", "-")
    reason = answer["estimate_differs"]
    differs = f"; the answer is {replicas}: {reason}" if reason else ", as estimated"
    lines += paragraph(f"First estimate: {answer['estimate_formula']} = {answer['estimate']}{differs}.")
    return lines + _one_less(answer)


def _most(served: Json) -> list[str]:
    """That a demand is the largest, and what ends it."""
    low, high = served["bracket"]
    unit = served["unit"].replace("_", " ")
    shown = "fails" if served["above"]["verdict"] == "fail" else "is not shown to pass"
    return paragraph(
        f"That is the largest demand shown to pass, found between {low:.6g} and {high:.6g} {unit}/s. At {high:.6g} "
        f"the fleet {shown}: {served['ends']}."
    )


def _one_less(answer: Json) -> list[str]:
    """Why the fleet is not smaller, and whether that was shown."""
    less = answer["one_less"]
    if less is None:
        return paragraph("It is not smaller: one replica is the smallest fleet.")
    if less["verdict"] == "pass":
        return paragraph(
            f"{_plural(less['replicas'], 'replica')} pass at that demand too, within the bracket."
        )
    lines = paragraph(f"What decides: {answer['deciding']}.")
    if less["verdict"] == "fail":
        return lines + paragraph(
            f"{_plural(less['replicas'], 'replica')} {_verb(less, 'fail')}: shown in simulation."
        )
    runs = max(trial["point"]["replications"] for trial in less["trials"] if trial["point"])
    return lines + paragraph(
        f"{_plural(less['replicas'], 'replica')} {_verb(less, 'remain')} undecided after {runs} runs: neither shown "
        f"to pass nor shown to fail, so {answer['replicas']} is the smallest fleet shown to pass."
    )


def _title(result: Json) -> list[str]:
    configuration, same = result["configuration"], result["comparable"]
    engine = configuration["engine"]
    gpus = math.prod(engine.get(f"{kind}_parallel_size", 1) for kind in ("tensor", "pipeline", "data"))
    return [
        result["scenario"],
        *paragraph(
            f"{same['model']} ({same['dtype']}, KV cache {same['kv_cache_dtype']}) on {gpus} x "
            f"{named(configuration, 'gpu')} a replica, {same['engine']}"
        ),
    ]


def _identity(result: Json) -> list[str]:
    return paragraph(
        f"capsim {result['capsim_version']}, fingerprint {result['fingerprint']}, seed {result['seed']}. Compare only "
        "results of the same model, tokenizer, precision, lengths, engine version and objectives."
    )


def _document(*sections: list[str]) -> str:
    return "\n\n".join("\n".join(lines) for lines in sections) + "\n"


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _plural(amount: int, noun: str) -> str:
    return f"{amount} {noun}{'' if amount == 1 else 's'}"


def _verb(fleet: Json, verb: str) -> str:
    return verb + ("s" if fleet["replicas"] == 1 else "")
