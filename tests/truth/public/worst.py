"""The runs that are furthest off, and what explains them.

Three trials are made of each, whatever its cause. They use the run's own measurement, so they diagnose and predict
nothing: with as many sequences at once as its tokens/s and its time per token imply (Little's law); with the seconds
added that pass before its first token; and with experts that reach a twentieth of the data sheet's arithmetic.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from capsim.cost import Efficiency, RooflineCost
from tests.truth.public.rows import Row
from tests.truth.public.run import Result, Run
from tests.truth.table import Table, percent

WORST = 10
SLOW_EXPERTS = 0.05
"""Share of the data sheet's arithmetic in the trial, where the roofline has its two shares of experts."""
CAUSES = {
    "GPUS-gpt-oss-20b-a100-L123": (
        "the engine, not the machine: vLLM makes 17 times as many tokens/s of the same model on the same "
        "GPU (run a100-L90). A token takes 6.2 s in the mean, so that steps take seconds. This GPU "
        "computes no 4-bit floats, and the row does not tell which kernel stood in; even experts at a "
        "twentieth of the arithmetic are too fast."
    ),
    "GPUS-gpt-oss-120b-a100-L123": (
        "as the 20B model on the same engine and GPU: a token takes 0.77 s with some 250 sequences at "
        "once. Slow experts explain most of it, not all."
    ),
    "GPUS-gpt-oss-120b-h100-L119": (
        "few sequences at once: the row's own figures imply 50, where the simulated pool of 231,000 "
        "tokens holds hundreds. With 50 most of the error is gone. Either weights that were widened left "
        "less memory, or a limit was set that the command line does not show."
    ),
    "GPUS-gpt-oss-20b-h100-L121": (
        "experts: at a twentieth of the arithmetic most of the error is gone. vLLM makes three times as "
        "many tokens/s of the same model on the same GPU (run h100-L88). 9 s pass before the first token "
        "besides."
    ),
    "GPUS-gpt-oss-120b-h100-L150": (
        "experts in part; neither the sequences at once that it implies nor a wait before the first "
        "token. The rest is unexplained."
    ),
    "GPUS-glm-4.5-air-h100-L444-random128input": (
        "experts in prefill: one share of the arithmetic, a twentieth, meets this server's runs with "
        "prompts of 128, 2,000 and 4,000 tokens to a fifth. Another run whose flags differ in parsers of "
        "answers alone (h100-L196) is a quarter too fast without it, so that the kernels were others, and no "
        "row tells which."
    ),
    "GPUS-glm-4.5-air-h100-L444-random2Kinput": (
        "the same server, and the same share of the arithmetic meets it."
    ),
    "GPUS-glm-4.5-air-h100-L444-random4Kinput": (
        "the same server, and the same share of the arithmetic meets it."
    ),
    "GPUS-glm-4.x-h100-L78": (
        "unexplained. A token takes 154 ms on eight A100 (run a100-L78), slower by their data sheet, and "
        "509 ms here. SGLang on the same machine is nearly as far off (runs h100-L111 and h100-L147), so "
        "that it is no engine's scheduler; but slow arithmetic of experts does not explain it, nor does the wait "
        "for the first token. A kernel that takes four times what is computed whatever the tokens, as one of FP8 "
        "was timed to on this GPU, comes nearer: nothing tells that it ran."
    ),
    "GPUS-glm-4.x-h100-L147": ("as the run of vLLM on the same machine (h100-L78)."),
    "GPUS-glm-4.x-h100-L111": ("as the run of vLLM on the same machine (h100-L78)."),
    "GPUS-qwen3-14b-h100-L320-random128input": (
        "the front end: if first tokens come evenly, none comes before 14 s; half of them come between 18 "
        "and 23 s, and the whole run takes 23. With these seconds it is met. Chat templates and tokens of "
        "1,000 requests at once are one process's work, and no part of a step."
    ),
    "GPUS-glm-4.5-air-a100-L331-random128input": (
        "the front end, as in the run of Qwen3-14B: 12 s before the first token, of 21 in all. With them "
        "it is met."
    ),
}
"""By run: what its own figures, its neighbours in the source and the trials show."""


def worst(results: Sequence[Result]) -> Table:
    """The ten runs whose throughput is furthest off, with the trials."""
    found = sorted(
        (result for result in results if "throughput" in result.errors()),
        key=lambda result: -abs(result.errors()["throughput"]),
    )[:WORST]
    return Table(
        "The worst ten",
        (
            "By throughput. Three trials of each, which use its own measurement and so predict nothing: as "
            "many sequences at once as its tokens/s times its time per token (Little's law); the seconds "
            "added that pass before its first token (twice the mean of TTFT less its 99th percentile, as of "
            "first tokens that come evenly); experts at "
            f"{SLOW_EXPERTS:.0%} of the data sheet's arithmetic instead of {Efficiency().expert_compute:.0%} or, "
            f"with 8-bit and 4-bit weights, {Efficiency().narrow_expert_compute:.0%}.",
        ),
        (
            "run",
            "error",
            "sequences",
            "error with so many",
            "s to the first",
            "error with them",
            "experts slow",
        ),
        tuple(map(_line, found)),
        causes=tuple(
            f"`{result.row.name}`: {CAUSES.get(result.row.name, 'no cause has been looked for yet.')}"
            for result in found
        ),
    )


def silence(row: Row) -> float | None:
    """Seconds before the first token of any request, if first tokens come evenly; None: not told, or none."""
    if not row["ttft_mean_ms"] or not row["ttft_p99_ms"]:
        return None
    seconds = (2 * float(row["ttft_mean_ms"]) - float(row["ttft_p99_ms"])) / 1e3
    return seconds if seconds > 0 else None


def delayed_error(result: Result, seconds: float) -> float:
    """The error of throughput if the whole run took so many seconds longer."""
    run, found = result.run, result.found
    assert run is not None
    assert found is not None
    assert found.tokens is not None
    tokens = float(run.requests.output.sum())
    slower = replace(found, tokens=tokens / (tokens / found.tokens + seconds))
    return result.errors(slower)["throughput"]


def _line(result: Result) -> tuple[str, ...]:
    run, real, seconds = result.run, result.row.measured(), silence(result.row)
    assert run is not None
    cells = [result.row.name, percent(result.errors()["throughput"])]
    if real.tokens and real.tpot:
        sequences = min(max(1, round(real.tokens * real.tpot)), run.load.count)
        cells += [str(sequences), _error(result, _with_sequences(run, sequences))]
    else:
        cells += ["", ""]
    cells += [f"{seconds:.1f}", percent(delayed_error(result, seconds))] if seconds else ["", ""]
    experts = run.hardware.model.experts is not None
    return (*cells, _error(result, _with_slow_experts(run)) if experts else "")


def _error(result: Result, run: Run) -> str:
    return percent(result.errors(run.simulated())["throughput"])


def _with_sequences(run: Run, sequences: int) -> Run:
    engine = replace(run.engine, max_num_seqs=min(sequences, run.engine.max_num_seqs))
    return replace(run, engine=engine)


def _with_slow_experts(run: Run) -> Run:
    hardware = run.hardware
    cost = RooflineCost(
        hardware.model,
        hardware.gpu,
        hardware.ranks,
        hardware.weights,
        hardware.kv,
        Efficiency(expert_compute=SLOW_EXPERTS, narrow_expert_compute=SLOW_EXPERTS),
        expert_parallel=hardware.expert_parallel,
    )
    return replace(run, cost=cost)
