"""What was found, as tables: medians by kind of run, every run, and every run that was refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from statistics import median

from tests.truth.public.load import AT_ONCE
from tests.truth.public.refusal import KINDS
from tests.truth.public.run import Result
from tests.truth.public.worst import delayed_error, silence
from tests.truth.table import Table, Verdict

TARGET = 0.15
"""Largest median size of the error of throughput."""
METRICS = ("throughput", "TPOT", "TTFT", "E2E")


def errors(results: Sequence[Result], metric: str) -> list[float]:
    """Signed errors of the runs that have one."""
    found = (result.errors() for result in results)
    return [each[metric] for each in found if metric in each]


def busy(results: Sequence[Result]) -> list[Result]:
    """Runs whose throughput is more than a latency, or than what was offered: several requests, and no stated rate."""
    runs = [(result, result.run) for result in results]
    return [result for result, run in runs if run and not run.load.alone and not run.load.stated_rate]


def targets(results: Sequence[Result]) -> Table:
    """Median error of throughput, over all runs and over some."""
    several = [result for result in results if result.run and not result.run.load.alone]
    kinds = {
        "all that tell throughput": list(results),
        "without one client alone": several,
        "without stated rates too": busy(results),
    }
    rows = [
        (words, str(len(found)), _percent(median(found)), _size(found))
        for words, runs in kinds.items()
        if (found := errors(runs, "throughput"))
    ]
    size = median(map(abs, errors(results, "throughput")))
    met = size < TARGET
    return Table(
        "Target",
        (
            "Throughput that is one client's is latency by another name; at a stated rate an engine that keeps "
            "up has that rate, and its throughput says little of the simulation.",
        ),
        ("runs", "n", "median signed error", "median size"),
        tuple(rows),
        causes=(
            f"Asked: a median size below {TARGET:.0%}. Found: {size:.1%}, {'met' if met else 'MISSED'}.",
            *_why(results),
        ),
        verdicts=(Verdict("throughput, median size", f"{TARGET:.0%}", f"{size:.1%}", met),),
    )


def _why(results: Sequence[Result]) -> Iterator[str]:
    """Where the errors are, in figures; the tables below have the rest."""
    loaded = busy(results)
    at_once = [result for result in loaded if result.run and result.run.load.kind == AT_ONCE]
    shop = [result for result in at_once if result.row.name.startswith("GPUS")]
    rest = [result for result in loaded if result not in shop]
    dense = [result for result in loaded if layers(result) == "dense"]
    experts = [result for result in loaded if result not in dense]
    shop_dense = [result for result in shop if result in dense]
    shop_experts = [result for result in shop if result not in dense]
    vllm = [result for result in loaded if result.row.engine == "vLLM"]
    others = [result for result in loaded if result not in vllm]
    pairs = (
        (
            "One source has {n} of the {of} busy runs, all sent at once to a server: {size}; the others "
            "{rest}. Its front end takes seconds for a thousand requests (below), and its command lines leave "
            "the kernels to the engine.",
            shop,
            rest,
        ),
        (
            "Models with experts: {size} over {n} busy runs, against {rest} of dense ones. The roofline prices "
            "grouped products as the middle one of the kernels that were timed; no row tells which one ran.",
            experts,
            dense,
        ),
        (
            "Within the one source they are no further off than dense ones: {size} over {n} runs, against {rest}. "
            "What is left there lies outside the experts.",
            shop_experts,
            shop_dense,
        ),
        (
            "Schedulers do not decide: vLLM, whose own is simulated, {size} over {n} busy runs; vLLM V0, SGLang "
            "and TensorRT-LLM, which have others, {rest}.",
            vllm,
            others,
        ),
    )
    for words, these, those in pairs:
        here, there = errors(these, "throughput"), errors(those, "throughput")
        if here and there:
            yield words.format(n=len(here), of=len(here) + len(there), size=_size(here), rest=_size(there))


def summary(title: str, results: Sequence[Result], key: Callable[[Result], str], head: str) -> Table:
    """Medians of each kind of run: n, signed error and its size, a metric after the other."""
    kinds: dict[str, list[Result]] = {}
    for result in results:
        if result.run:
            kinds.setdefault(key(result), []).append(result)
    columns = [head]
    for metric in METRICS:
        columns += [f"{metric} n", "signed", "size"]
    rows = [(kind, *_medians(kinds[kind])) for kind in sorted(kinds)]
    return Table(title, (), tuple(columns), tuple(rows))


def summaries(results: Sequence[Result]) -> Iterator[Table]:
    """By engine and GPU, by what the layers are, by source, by model, by load, by step cost."""
    for title, head, key in (
        ("By engine and GPU", "engine, GPU", lambda result: f"{result.row.engine}, {gpu(result)}"),
        ("By layers", "layers", layers),
        ("By source", "id begins", lambda result: result.row.name.split("-")[0]),
        ("By model", "model", lambda result: result.run.hardware.model_words.removesuffix(", fp8 KV")),
        ("By load", "load", load),
        ("By step cost", "step cost", cost),
    ):
        yield summary(title, results, key, head)


def gpu(result: Result) -> str:
    """Name of its GPU."""
    assert result.run is not None
    return result.run.hardware.gpu.name


def layers(result: Result) -> str:
    """Whether layers have experts."""
    assert result.run is not None
    return "dense" if result.run.hardware.model.experts is None else "with experts"


def load(result: Result) -> str:
    """Kind of its load."""
    assert result.run is not None
    alone = result.run.load.alone
    return f"{result.run.load.kind}, {'one request at a time' if alone else 'several'}"


def cost(result: Result) -> str:
    """Where its seconds come from."""
    assert result.run is not None
    source = result.run.cost.source
    return "roofline" if source == "analytic" else f"profile, {source}"


def sensitivities(results: Sequence[Result]) -> Table:
    """What the assumptions that no source tells are worth: the same runs simulated twice."""
    rows = []
    for words in dict.fromkeys(result.variant for result in results if result.variant):
        runs = [result for result in results if result.variant == words]
        told = errors(runs, "throughput")
        other = [
            result.errors(result.varied)["throughput"] for result in runs if "throughput" in result.errors()
        ]
        changes = [(1 + there) / (1 + here) - 1 for here, there in zip(told, other, strict=True)]
        rows.append((words, str(len(told)), _percent(median(told)), _size(told), _percent(median(other)),
                     _size(other), _percent(median(changes))))  # fmt: skip
    return Table(
        "Sensitivity of throughput",
        (
            "Runs of which an assumption was made, simulated with another one beside. The tables above and below have "
            "the assumption as it was set beforehand.",
        ),
        ("other assumption", "n", "signed", "size", "signed, other", "size, other", "median change"),
        tuple(rows),
    )


def silences(results: Sequence[Result]) -> Table:
    """Runs that are sent at once, before and after the seconds that pass before their first token."""
    told = [(result, silence(result.row)) for result in results if result.run and result.row.at_once]
    rows = []
    for words in ("128", "2000", "4000", "32000"):
        found = [
            (result, seconds)
            for result, seconds in told
            if seconds and result.run and result.run.lengths and not result.run.lengths.spread
            and round(result.run.lengths.prompt.mean / int(words), 1) == 1.0
        ]  # fmt: skip
        if found:
            now = errors([result for result, _ in found], "throughput")
            later = [delayed_error(result, seconds) for result, seconds in found]
            rows.append((words, str(len(found)), f"{median(seconds for _, seconds in found):.1f}",
                         _percent(median(now)), _size(now), _percent(median(later)), _size(later)))  # fmt: skip
    return Table(
        "Before the first token",
        (
            "Random prompts that are all sent at once: seconds before any request has a first token, from the "
            "mean and the 99th percentile of the measured TTFT as of first tokens that come evenly. What the "
            "front end takes for a thousand requests at once is no part of a step. The second pair of errors "
            "has these seconds added; it diagnoses, since they are the measurement's own.",
        ),
        ("prompt", "n", "seconds, median", "signed", "size", "signed, with them", "size, with them"),
        tuple(rows),
    )


def every_run(results: Sequence[Result]) -> Table:
    """A row a run that was simulated."""
    rows = tuple(_line(result) for result in results if result.run)
    return Table(
        "Every run",
        (
            "The id begins with the source (last table). Tokens/s are of all GPUs together. A source that tells only "
            "requests/s is compared by them (`r/s`).",
            "`*`: a statistic that the source does not name, or that is derived from two of its means, compared as a "
            "mean. TTFT and E2E of requests that are sent at once are backlog and left out.",
        ),
        ("run", "engine", "GPUs", "model", "load", "prompt/output", "cost", "tokens/s measured", "simulated",
         "error", "TPOT ms", "error", "TTFT ms", "error", "E2E ms", "error"),
        rows,
        labels=7,
    )  # fmt: skip


def refused(results: Sequence[Result]) -> Table:
    """Runs that were refused, by reason."""
    rows = []
    for reason in KINDS:
        found = [result for result in results if result.refused and result.refused.reason == reason]
        if found:
            details = dict.fromkeys(
                result.refused.detail for result in found if result.refused and result.refused.detail
            )
            names = ", ".join(result.row.name for result in found)
            rows.append((reason, str(len(found)), "; ".join(details), names))
    count = sum(int(row[1]) for row in rows)
    rows.append(("all", str(count), "", ""))
    return Table(
        "Refused",
        (f"{count} of {len(results)} rows, each under the first reason that holds.",),
        ("reason", "n", "in particular", "runs"),
        tuple(rows),
        labels=4,
    )


def _line(result: Result) -> tuple[str, ...]:
    row, run, found, real = result.row, result.run, result.found, result.row.measured()
    assert run is not None
    assert found is not None
    error = result.errors()
    if real.tokens is None and real.requests is not None:
        throughput = (f"{real.requests:.4g} r/s", f"{found.requests or 0:.4g} r/s")
    else:
        throughput = ("" if real.tokens is None else f"{real.tokens:.0f}", f"{found.tokens or 0:.0f}")
    cells = [*throughput, _percent(error["throughput"]) if "throughput" in error else ""]
    for metric, column in (("TPOT", "tpot"), ("TTFT", "ttft"), ("E2E", "e2e")):
        value = getattr(real, column)
        mark = "" if row[f"{column}_mean_ms"] else "*"
        cells += [f"{1e3 * value:.4g}{mark}", _percent(error[metric])] if metric in error else ["", ""]
    version = row["engine_version"].split(" ")[0] if row["engine_version"][:1].isdigit() else ""
    return (
        row.name,
        f"{row.engine} {version}".rstrip(),
        run.hardware.words,
        run.hardware.model_words,
        run.load.words,
        run.lengths.words if run.lengths else "recorded",
        cost(result),
        *cells,
    )


def _medians(results: Sequence[Result]) -> Iterator[str]:
    for metric in METRICS:
        found = errors(results, metric)
        yield from (str(len(found)), _percent(median(found)), _size(found)) if found else ("", "", "")


def _percent(error: float) -> str:
    return f"{100 * error:+.1f}%"


def _size(found: Sequence[float]) -> str:
    return f"{100 * median(map(abs, found)):.1f}%"
