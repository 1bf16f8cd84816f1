"""Steps that a real engine logged: what was scheduled in each, and how long its parts took.

A file is CSV, one row a step, times in seconds from any origin:

- ``t_start``, ``t_sched_end``, ``t_end``: scheduling begins, ends, and the step's outputs are made;
- ``w_exec_start``, ``w_exec_end``, ``w_sample_start``, ``w_sample_end``: the worker's own clock for the forward pass
  and for sampling; may be missing or empty;
- ``n_prefill_reqs``, ``prefill_tokens``, ``prefill_ctx``: chunks, their tokens, and the tokens computed before them;
- ``chunks``: each of them as ``new@past``, separated by blanks; where it is missing or empty they are taken to be
  equal;
- ``n_decode``, ``decode_ctx``: decodes and the sum of their contexts, the new token included;
- ``decode_squares``, ``decode_longest``: sum of squared contexts and the longest; where they are missing, contexts
  are taken to be equal;
- ``n_new``: requests that ran for the first time; ``case``, ``kind``: which batch was asked for, perhaps.

Other columns are kept out. Beside a file ``steps.csv`` that capsim wrote stands ``steps.json``: engine, version,
device, model and settings. Logs without one are read as well.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrate.chunks import equal_chunks
from calibrate.provenance import SourceFile
from calibrate.table import Table, read_table, read_text
from capsim.cost import BatchShape, Chunk
from capsim.errors import BadInput, Fault

TIMES = ("t_start", "t_sched_end", "t_end")
COUNTS = ("n_prefill_reqs", "prefill_tokens", "prefill_ctx", "n_decode", "decode_ctx")
WORKER = ("w_exec_start", "w_exec_end", "w_sample_start", "w_sample_end")
MOST_CHUNKS = 10**6
"""Chunks of a step above which a number is a slip: each becomes an item of its own."""
_MOST_FAULTS = 20  # of one column; a column of the wrong kind has one in each row


@dataclass(frozen=True)
class EngineHeader:
    """What was measured.

    Attributes:
        engine, version: e.g. ``vllm`` and ``0.32.0``.
        device: the GPU or CPU as its driver names it.
        model: the name that was asked for.
        shapes: its sizes, the keys of `capsim.cost.profile_tables.MODEL_SHAPES`.
        settings: of the engine, by its own names.
        date: ISO 8601.
    """

    engine: str = "vllm"
    version: str = "not stated"
    device: str = "not stated"
    model: str = "not stated"
    shapes: Mapping[str, int] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    date: str = "not stated"

    def text(self) -> str:
        """The file beside the steps."""
        return json.dumps(asdict(self), indent=1) + "\n"


@dataclass(frozen=True)
class EngineStep:
    """One step.

    Attributes:
        batch: what was in it.
        seconds: from the begin of scheduling until the outputs are made.
        schedule: seconds of scheduling.
        execute, sample: seconds of forward pass and sampling by the worker's clock; None where it tells nothing.
        start: seconds from the origin of its file's times.
        admitted: requests that ran for the first time.
        case, kind: the batch that was asked for; empty in a log of live requests.
        chunks_known: the length of each chunk is known, not only their sum.
    """

    batch: BatchShape
    seconds: float
    schedule: float
    execute: float | None
    sample: float | None
    start: float
    admitted: int
    case: str
    kind: str
    chunks_known: bool

    @property
    def host(self) -> float | None:
        """Seconds that are neither forward pass nor sampling: scheduling, messages and bookkeeping."""
        if self.execute is None or self.sample is None:
            return None
        return self.seconds - self.execute - self.sample


@dataclass(frozen=True)
class EngineSteps:
    """The steps of one file.

    Attributes:
        source: the file as messages name it.
        files: what was read.
        header: what was measured.
        steps: in the order of the file.
    """

    source: str
    files: tuple[SourceFile, ...]
    header: EngineHeader
    steps: tuple[EngineStep, ...]


def header_path(path: Path) -> Path:
    """Where the header of a file of steps, packed or not, stands."""
    return path.with_name(path.name.removesuffix(".gz").removesuffix(".csv") + ".json")


def read(path: Path) -> EngineSteps:
    """Read a file of steps.

    Raises:
        BadInput: the file or its header is damaged, or a step contradicts itself; every such row, up to some.
    """
    table = read_table(path, (*TIMES, *COUNTS))
    beside = header_path(path)
    header, files = EngineHeader(), [SourceFile.of(path)]
    if beside.exists():
        header = _header(beside)
        files.append(SourceFile.of(beside))
    return EngineSteps(str(path), tuple(files), header, tuple(_steps(table)))


def _header(path: Path) -> EngineHeader:
    try:
        members = json.loads(read_text(path))
    except json.JSONDecodeError as error:
        fault = Fault(str(path), f"not valid JSON: {error.msg}", "", "", "", error.lineno, error.colno)
        raise BadInput(fault) from error
    known = EngineHeader()
    if not isinstance(members, dict):
        raise BadInput(Fault(str(path), "is no object", "", f"an object with {', '.join(vars(known))}"))
    faults = [
        Fault(str(path), f"{value!r:.40}", name, "an object" if isinstance(standard, dict) else "a text")
        for name, standard in vars(known).items()
        if not isinstance(value := members.get(name, standard), type(standard))
    ]
    if faults:
        raise BadInput(*faults)
    return EngineHeader(**{name: members[name] for name in vars(known) if name in members})


def _steps(table: Table) -> Iterable[EngineStep]:
    start, scheduled, end = (table.numbers(name) for name in TIMES)
    chunks = _chunks(table)
    decodes, context = table.counts("n_decode"), table.counts("decode_ctx")
    squares, longest = _spread(table, decodes, context)
    execute, sample = _worker(table, *WORKER[:2]), _worker(table, *WORKER[2:])
    admitted = table.counts("n_new") if "n_new" in table.columns else np.zeros(len(table), dtype=np.int64)
    _refuse_impossible(table, start, scheduled, end, decodes, context)
    known = table.columns.get("chunks", ("",) * len(table))
    cases, kinds = (table.columns.get(name, ("",) * len(table)) for name in ("case", "kind"))
    for row in range(len(table)):
        yield EngineStep(
            BatchShape(
                chunks[row],
                int(decodes[row]),
                int(context[row]),
                squared_context=int(squares[row]),
                largest_context=int(longest[row]),
            ),
            seconds=float(end[row] - start[row]),
            schedule=float(scheduled[row] - start[row]),
            execute=execute[row],
            sample=sample[row],
            start=float(start[row]),
            admitted=int(admitted[row]),
            case=cases[row],
            kind=kinds[row],
            chunks_known=bool(known[row]) or len(chunks[row]) < 2,
        )


def _chunks(table: Table) -> list[tuple[Chunk, ...]]:
    """The chunks of each row: as they stand there, or equal ones of the row's sums."""
    count, new, past = (table.counts(name) for name in COUNTS[:3])
    written = table.columns.get("chunks", ("",) * len(table))
    rows, faults = [], []
    for row, text in enumerate(written):
        sums = int(count[row]), int(new[row]), int(past[row])
        chunks = (equal_chunks(*sums) if sums[0] <= MOST_CHUNKS else ()) if not text else _parsed(text)
        if chunks is None:
            faults.append(
                table.fault(row, "chunks", f"{text!r:.40}", "chunks as new@past, e.g. 128@0 64@512")
            )
        elif sums[1] < sums[0]:
            faults.append(table.fault(row, "prefill_tokens", f"{sums[1]} for {sums[0]} chunks", "one each"))
        elif (len(chunks), sum(each.new for each in chunks), sum(each.past for each in chunks)) != sums:
            counts = f"{sums[0]} chunks of {sums[1]} tokens after {sums[2]}"
            faults.append(table.fault(row, "chunks", f"{text!r:.40} are not {counts}", "chunks that add up"))
        rows.append(chunks or ())
    _refuse(table, faults)
    return rows


def _parsed(text: str) -> tuple[Chunk, ...] | None:
    parts = [each.partition("@") for each in text.split()]
    if not all(new.isdecimal() and past.isdecimal() for new, _, past in parts):
        return None
    return tuple(Chunk(int(new), int(past)) for new, _, past in parts)


def _spread(
    table: Table, decodes: NDArray[np.int64], context: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Sums of squared contexts and longest contexts; of equal ones where the file does not say."""
    many = np.maximum(decodes, 1)
    equal = {"decode_squares": context * context // many, "decode_longest": -(-context // many)}
    squares, longest = (
        table.counts(name) if name in table.columns else counts for name, counts in equal.items()
    )
    return squares, longest


def _worker(table: Table, start: str, end: str) -> list[float | None]:
    """Seconds between two columns of the worker's clock; None where a cell is missing or empty."""
    if start not in table.columns or end not in table.columns:
        return [None] * len(table)
    seconds: list[float | None] = []
    faults = []
    for row, cells in enumerate(zip(table.columns[start], table.columns[end], strict=True)):
        try:
            first, last = (float(cell) if cell else math.nan for cell in cells)
        except ValueError:
            faults.append(table.fault(row, start, f"{cells[0]!r} to {cells[1]!r}", "numbers, or nothing"))
            continue
        seconds.append(last - first if last >= first else None)  # not a number is not greater
    _refuse(table, faults)
    return seconds


def _refuse_impossible(
    table: Table,
    start: NDArray[np.float64],
    scheduled: NDArray[np.float64],
    end: NDArray[np.float64],
    decodes: NDArray[np.int64],
    context: NDArray[np.int64],
) -> None:
    """Refuse rows that end before they begin, hold nothing, or whose decodes have less context than tokens."""
    faults = []
    for row in np.flatnonzero((end <= start) | (scheduled < start) | (scheduled > end)):
        what = f"{start[row]:g}, {scheduled[row]:g} and {end[row]:g}"
        faults.append(table.fault(int(row), "t_end", what, "t_start, t_sched_end and t_end in this order"))
    for row in np.flatnonzero(context < decodes):
        what = f"{context[row]} for {decodes[row]} decodes"
        faults.append(table.fault(int(row), "decode_ctx", what, "a token or more for each"))
    empty = np.flatnonzero((decodes == 0) & (table.counts("n_prefill_reqs") == 0))
    faults += [table.fault(int(row), "n_decode", "no chunk and no decode", "some") for row in empty]
    _refuse(table, faults)


def _refuse(table: Table, faults: list[Fault]) -> None:
    if faults:
        more = [f"{table.source}: {len(faults) - _MOST_FAULTS} more of these"]
        raise BadInput(*faults[:_MOST_FAULTS], *(more if len(faults) > _MOST_FAULTS else []))
