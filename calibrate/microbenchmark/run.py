from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from time import monotonic

import click

from calibrate.microbenchmark.bench import Bench, NotPossible, OutOfMemory
from calibrate.microbenchmark.limits import Limits
from calibrate.microbenchmark.plan import Plan, plan_of
from calibrate.microbenchmark.progress import Progress
from calibrate.microbenchmark.rank import WIDE, Rank
from calibrate.microbenchmark.raw_file import Head, Raw, Writer, read_raw, shapes_of
from calibrate.microbenchmark.runner import Outcome, Runner
from capsim.errors import BadInput, Fault, Infeasible


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
