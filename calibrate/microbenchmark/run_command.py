"""``capsim calibrate run``: measure a model's parts on this machine."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from time import monotonic
from typing import Any

import click

from calibrate.microbenchmark.bench import Bench, NotPossible, OutOfMemory
from calibrate.microbenchmark.case import Case
from calibrate.microbenchmark.limits import Limits, limits_of
from calibrate.microbenchmark.machine import Condition, cpu_condition, gpu_condition
from calibrate.microbenchmark.options import limit_options, rank_of
from calibrate.microbenchmark.plan import Plan, plan_of
from calibrate.microbenchmark.rank import WIDE, Rank
from calibrate.microbenchmark.raw_file import Head, Raw, Writer, read_raw, shapes_of
from calibrate.microbenchmark.runner import ABOVE_CEILING, OUT_OF_MEMORY, Outcome, Runner, ceilings_of
from capsim.errors import BadInput, Fault, Infeasible
from capsim.units import format_bandwidth, format_compute


@click.command("run")
@limit_options
@click.option(
    "--device",
    required=True,
    type=click.Choice(["cuda", "cpu"]),
    help="What to measure on; a GPU is the first.",
)
@click.option(
    "--threads",
    type=click.IntRange(min=1),
    help="Of a CPU; where not given, one for each CPU that is there.",
)
@click.option("--force", is_flag=True, help="Measure although other processes use the GPU.")
@click.option(
    "--out",
    required=True,
    type=click.Path(path_type=Path, dir_okay=False),
    help="Raw file; one that is there already is continued.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")
def run_command(
    model: str,
    dtype: str,
    tp: int,
    minutes: float,
    max_num_batched_tokens: int,
    max_num_seqs: int,
    max_model_len: int,
    device: str,
    threads: int | None,
    force: bool,
    out: Path,
    as_json: bool,
) -> None:
    """Measure a decoder step's parts with random weights, and write every figure at once to a raw file.

    The same command continues a file that an interruption has left.

    \b
    Example:
      capsim calibrate run --model llama-3.1-8b --device cuda --minutes 6 --out raw.jsonl
    """  # noqa: D301 (click looks for the character, not for two)
    rank = rank_of(model, dtype, tp)
    # Before this process uses the GPU: whatever uses it now is another one.
    refuse_busy(device, gpu_condition() if device == "cuda" else cpu_condition(), force)
    bench = open_bench(device, threads or os.cpu_count() or 1, rank.dtype)
    limits = limits_of(
        rank,
        bench.machine.memory,
        max_num_batched_tokens=max_num_batched_tokens,
        max_num_seqs=max_num_seqs,
        max_model_len=max_model_len,
        graphs=device == "cuda",
    )
    run = Run.of(bench, rank, model, limits, minutes, out)
    outcome = run.measure()
    answer = _answer(run, outcome)
    click.echo(json.dumps(answer, indent=2) if as_json else "\n".join(_text(answer)))
    for warning in answer["warnings"]:
        click.echo(f"warning: {warning}", err=True)


def open_bench(device: str, threads: int, dtype: str) -> Bench:
    """The device, with torch.

    Raises:
        BadInput: torch is not installed, there is no such device, or it does not compute in the dtype.
    """
    try:
        import torch  # noqa: F401 (whether it is there)
    except ImportError as error:
        raise BadInput(
            Fault("capsim calibrate run", "torch is not installed", "", "pip install 'capsim[calibrate]'")
        ) from error
    from calibrate.microbenchmark.torch_bench import TorchBench, check_dtype

    if device == "cuda":
        from calibrate.microbenchmark.cuda import CudaDevice

        bench = TorchBench(CudaDevice())
    else:
        from calibrate.microbenchmark.cpu import CpuDevice

        bench = TorchBench(CpuDevice(threads))
    check_dtype(bench.machine, dtype)
    return bench


@dataclass(frozen=True)
class Run:
    """A raw file and what is to be added to it.

    Attributes:
        bench: the device.
        plan: what is measured.
        head: of the file.
        out: its path.
        raw: what it holds already; None where it is new.
    """

    bench: Bench
    plan: Plan
    head: Head
    out: Path
    raw: Raw | None

    @classmethod
    def of(cls, bench: Bench, rank: Rank, model: str, limits: Limits, minutes: float, out: Path) -> Run:
        """Choose a plan, or take that of the file.

        Raises:
            BadInput: the file is damaged, or holds what was measured otherwise or elsewhere.
        """
        raw = _present(out)
        if raw is None:
            ceilings = bench.ceilings(tuple(dict.fromkeys((WIDE, rank.dtype))))
            plan = plan_of(rank, limits, ceilings, bench.timing, minutes)
        else:
            plan = Plan(rank, limits, raw.plan(rank.model).density)
        head = Head(
            machine=bench.machine,
            model=model,
            shapes=shapes_of(rank.model),
            dtype=rank.dtype,
            kv_dtype=WIDE,
            tensor_parallel_size=rank.ranks,
            plan=plan.members(),
            date=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        )
        differences = raw.head.differences(head) if raw is not None else []
        if differences:
            faults = [Fault(str(out), text, "", "the same, or another --out") for text in differences]
            raise BadInput(*faults)
        return cls(bench, plan, head, out, raw)

    def measure(self) -> Outcome:
        """Measure what the file lacks.

        Raises:
            Infeasible: the weights do not fit the memory that is free.
            BadInput: the device cannot be used.
        """
        kept = () if self.raw is None else self.raw.rows
        with Writer(self.out, 0 if self.raw is None else self.raw.whole) as writer:
            if self.raw is None:
                writer.head(self.head)
            done = {row.case for row in kept}
            if any(case not in done for case in self.plan.cases()):
                self._load()
            runner = Runner(self.bench, self.plan, writer, kept, Progress(), monotonic)
            try:
                return runner.run()
            except KeyboardInterrupt:
                many = len(kept) + len(runner.outcome.rows)
                click.echo(
                    f"\n{many} of {len(self.plan.cases())} cases are in {self.out}: the same command continues",
                    err=True,
                )
                raise

    def _load(self) -> None:
        try:
            self.bench.load(self.plan)
        except OutOfMemory as error:
            raise Infeasible(
                f"weights and KV cache of {self.plan.rank.model.name} do not fit what is free of "
                f"{self.bench.machine.name}: {error}",
                ("a GPU that nothing else uses", "more ranks (--tp)", "a smaller --max-model-len"),
            ) from error
        except NotPossible as error:
            raise BadInput(
                Fault(self.bench.machine.name, str(error), "", "a device that torch can use")
            ) from error


class Progress:
    """Says on stderr which case is next: over the same line for people who watch, else every tenth."""

    def __init__(self) -> None:
        self._drawn = sys.stderr.isatty()
        self._tenth = -1

    def __call__(self, case: Case, place: int, cases: int) -> None:
        """Say it."""
        if self._drawn:
            end = "\n" if place == cases - 1 else ""
            click.echo(f"\r\x1b[K{place + 1}/{cases} {case}{end}", err=True, nl=False)
        elif 10 * place // cases != self._tenth:
            self._tenth = 10 * place // cases
            click.echo(f"{place + 1}/{cases} {case}", err=True)


def _present(out: Path) -> Raw | None:
    """The file that is there; None where there is none, or nothing but a torn first line."""
    if not out.exists():
        return None
    try:
        if b"\n" not in out.read_bytes():
            return None
    except OSError as error:
        raise BadInput(Fault(str(out), f"cannot be read: {error.strerror or error}")) from error
    return read_raw(out)


def refuse_busy(device: str, condition: Condition, force: bool) -> None:
    """Refuse a GPU that others use, unless forced to; say it of a CPU.

    Raises:
        BadInput: naming who uses it, and what to do.
    """
    if not condition.busy:
        return
    if device == "cuda" and not force:
        todo = "an idle GPU: end them, choose another with CUDA_VISIBLE_DEVICES, or --force"
        raise BadInput(Fault("--device", condition.busy, device, todo))
    click.echo(f"warning: {condition.busy}: rows measured now will not repeat well", err=True)


def _answer(run: Run, outcome: Outcome) -> dict[str, Any]:
    rows = (*outcome.kept, *outcome.rows)
    ceilings = ceilings_of(rows, run.bench.machine.cache)
    memory, above = outcome.failed(OUT_OF_MEMORY), outcome.failed(ABOVE_CEILING)
    warnings = list(outcome.warnings)
    if run.bench.machine.device == "cuda" and not run.bench.machine.fused:
        warnings.append(
            "element-wise kernels could not be compiled together (is there a C compiler?): they are slower than an "
            "engine's"
        )
    if above:
        named = ", ".join(str(row.case) for row in above[:3])
        warnings.append(f"{len(above)} cases were faster than the ceilings allow: {named}; fit refuses them")
    spreads = sorted(row.sample.spread for row in rows if row.sample is not None)
    return {
        "raw": str(run.out),
        "machine": run.bench.machine.members(),
        "density": run.plan.density.name,
        "cases": len(run.plan.cases()),
        "measured_now": len(outcome.rows),
        "measured_before": len(outcome.kept),
        "ceilings": {"copy": ceilings.bandwidth, **dict(ceilings.flops)},
        "spread": spreads[len(spreads) // 2] if spreads else None,
        "out_of_memory": [str(row.case) for row in memory],
        "not_possible": sorted(
            {f"{row.case}: {row.failed}" for row in rows if row.failed} - _named((*memory, *above))
        ),
        "above_ceiling": [str(row.case) for row in above],
        "warnings": warnings,
    }


def _named(rows: tuple[Any, ...]) -> set[str]:
    return {f"{row.case}: {row.failed}" for row in rows}


def _text(answer: dict[str, Any]) -> list[str]:
    machine = answer["machine"]
    flops = {name: rate for name, rate in answer["ceilings"].items() if name != "copy"}
    rates = ", ".join(f"{name} products {format_compute(rate)}" for name, rate in flops.items())
    lines = [
        f"{answer['raw']}: {answer['cases']} cases, {answer['measured_now']} measured now and "
        f"{answer['measured_before']} before",
        f"  machine   {machine['name']}, torch {machine['torch']}",
        f"  ceilings  copy {format_bandwidth(answer['ceilings']['copy'])}, {rates}",
    ]
    if answer["spread"] is not None:
        lines.append(f"  spread    {100 * answer['spread']:.1f} % in the median of the rows")
    if answer["out_of_memory"]:
        lines.append(
            f"  out of memory ({len(answer['out_of_memory'])}): {', '.join(answer['out_of_memory'][:5])}"
        )
    lines += [f"  not measured: {each}" for each in answer["not_possible"]]
    return lines
