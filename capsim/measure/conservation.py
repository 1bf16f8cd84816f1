"""Conservation laws that every finished simulation obeys, whatever it simulated."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from capsim.errors import InvariantBroken
from capsim.fleet.log import LeapColumns, Outcome, RequestColumns, RunLog
from capsim.measure.latency import failed
from capsim.measure.leaps import leap_durations, leap_parts, leap_rows, most_blocks, sum_over_time

TIME_TOLERANCE = 1e-8
"""Seconds. Ties within 1 ns count as one instant, and sums of step times round by far less in a week (6e5 s)."""
RELATIVE_TOLERANCE = 1e-9
"""Sums of up to a million terms in float64 keep more digits than this."""
STAGES = ("arrival", "submitted", "scheduled", "first_token", "finish")
"""Of a completed request, in order."""


def check_conservation(log: RunLog) -> None:
    """Check that nothing was made or lost: requests, tokens, KV blocks, time.

    Raises:
        InvariantBroken: with the numbers, when a law does not hold.
    """
    _check_outcomes(log)
    _check_gateway(log)
    _check_blocks(log)
    _check_pool(log)
    _check_found(log)
    _check_tokens(log)
    _check_prefill(log)
    _check_leaps(log)
    _check_little(log)
    _check_service(log)


def _completed(log: RunLog) -> NDArray[np.bool_]:
    return ~failed(log)


def _only_whole_attempts(log: RunLog) -> bool:
    """Whether every attempt that a replica began was completed."""
    attempts, completed = log.requests.attempts, _completed(log)
    return not ((attempts[completed] != 1).any() or (attempts[~completed] != 0).any())


def _drained(log: RunLog) -> bool:
    return not bool((log.requests.outcome == Outcome.UNFINISHED).any())


def _check_outcomes(log: RunLog) -> None:
    """Every request ends exactly once; a completed one went through its stages in order."""
    requests = log.requests
    unknown = np.setdiff1d(requests.outcome, [int(outcome) for outcome in Outcome])
    if len(unknown):
        raise InvariantBroken(f"requests ended with unknown outcomes {unknown.tolist()}")
    completed = _completed(log)
    ended = ~np.isnan(requests.finish)
    if (ended != completed).any():
        row = int(np.flatnonzero(ended != completed)[0])
        outcome = Outcome(int(requests.outcome[row])).name
        raise InvariantBroken(f"request {row} is {outcome} with finish {requests.finish[row]}")
    _check_stages(requests, completed)


def _check_stages(requests: RequestColumns, completed: NDArray[np.bool_]) -> None:
    times = {stage: getattr(requests, stage) for stage in STAGES}
    for stage, time in times.items():
        missing = completed & ~np.isfinite(time)
        if missing.any():
            row = int(np.flatnonzero(missing)[0])
            raise InvariantBroken(f"request {row} is COMPLETED without {stage}")
    for before, after in pairwise(STAGES):
        backwards = completed & (times[after] - times[before] < -TIME_TOLERANCE)
        if backwards.any():
            row = int(np.flatnonzero(backwards)[0])
            raise InvariantBroken(
                f"request {row} has {after} at {times[after][row]} s before {before} at {times[before][row]} s"
            )


def _check_gateway(log: RunLog) -> None:
    """Nobody waits longer at the gateway than it takes to an engine, and no replica is given more than it may hold."""
    requests, completed = log.requests, _completed(log)
    late = (requests.submitted - requests.arrival - log.latencies.inbound)[completed]
    held = requests.held[completed]
    wrong = (held < 0) | (held > late + TIME_TOLERANCE)
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise InvariantBroken(f"a request is held for {held[row]} s and handed over {late[row]} s late")
    if log.gateway is None or not _only_whole_attempts(log):
        return  # the end of an attempt that was lost is not recorded
    for replica in range(int(requests.replica.max(initial=-1)) + 1):
        here = completed & (requests.replica == replica)
        times = np.concatenate([requests.finish[here], requests.submitted[here] + TIME_TOLERANCE])
        change = np.repeat([-1, 1], int(here.sum()))
        most = int(np.cumsum(change[np.argsort(times, kind="stable")]).max(initial=0))
        if most > log.gateway.max_outstanding:
            raise InvariantBroken(
                f"replica {replica} holds {most} requests, expected at most {log.gateway.max_outstanding}"
            )


def _check_blocks(log: RunLog) -> None:
    if log.blocks_left < 0 or (_drained(log) and log.blocks_left != 0):
        raise InvariantBroken(f"{log.blocks_left} KV blocks are held after the run, expected 0")


def _check_pool(log: RunLog) -> None:
    """A replica holds no more blocks than its pool has, and no more room in them than they have."""
    leaps = log.leaps
    row = _first(
        leaps, lambda part: (most_blocks(part) > log.pool_blocks) | (part.blocks < 0) | (part.growth < 0)
    )
    if row is not None:
        raise InvariantBroken(
            f"leap {row} holds {leaps.blocks[row]} KV blocks and takes {leaps.growth[row]} "
            f"of a pool of {log.pool_blocks}"
        )
    row = _first(leaps, lambda part: (part.unfilled < 0) | (part.unfilled > _room(part, log.block_size)))
    if row is not None:
        raise InvariantBroken(
            f"leap {row} has room for {leaps.unfilled[row]} tokens in {leaps.blocks[row]} blocks "
            f"of {log.block_size}"
        )


def _room(leaps: LeapColumns, block_size: int) -> NDArray[np.int64]:
    """Tokens that the blocks held could hold."""
    return block_size * leaps.blocks.astype(np.int64)


def _first(leaps: LeapColumns, wrong: Callable[[LeapColumns], NDArray[np.bool_]]) -> int | None:
    """Row of the first leap of which something is true; None if there is none."""
    for rows, part in leap_parts(leaps):
        found = np.flatnonzero(wrong(part))
        if len(found):
            return int(rows.start + found[0])
    return None


def _check_found(log: RunLog) -> None:
    """No count is negative, and of each prompt at least the last token is computed."""
    requests = log.requests
    counts = {name: getattr(requests, name) for name in ("cached", "loaded", "found")}
    for name, tokens in {**counts, "evictions": log.evictions}.items():
        if (tokens < 0).any():
            row = int(np.flatnonzero(tokens < 0)[0])
            raise InvariantBroken(f"{name} is {tokens[row]} in row {row}, expected 0 or more")
    whole = _completed(log) & (requests.cached >= log.samples * requests.prompt)
    if whole.any():
        row = int(np.flatnonzero(whole)[0])
        raise InvariantBroken(
            f"request {row} found {requests.cached[row]} of its {requests.prompt[row]} prompt tokens "
            "in the cache, expected fewer"
        )


def _check_tokens(log: RunLog) -> None:
    """Tokens generated are tokens owed.

    A token is made by each decode of each step, by the prefill that ends in a request's first token, and by
    the recomputation that ends a preemption's gap. Requests left unfinished have made some of their tokens.
    """
    requests, completed = log.requests, _completed(log)
    decoded = int(log.leaps.steps @ log.leaps.decodes.astype(np.int64))
    first = log.samples * int(completed.sum()) + log.lost_first_tokens
    generated = decoded + first + len(log.resumed_gaps)
    owed = log.samples * int(requests.output[completed].sum()) + log.lost_tokens
    unfinished = requests.outcome == Outcome.UNFINISHED
    least = generated - log.samples * int(requests.output[unfinished].sum())
    if not least <= owed <= generated:
        raise InvariantBroken(
            f"{generated} tokens were generated ({decoded} by decodes, {first} first tokens, "
            f"{len(log.resumed_gaps)} after preemptions) and {owed} were owed ({log.lost_tokens} of them lost), "
            f"with {int(unfinished.sum())} unfinished"
        )


def _check_prefill(log: RunLog) -> None:
    """Tokens that chunks computed are those of prompts that were not there already, and those computed again.

    A preempted sequence computes again what it had computed and does not find. If it decoded, it also
    computes the token that it generated last, which no step had read: one for each gap around a preemption.
    Attempts that were lost or are unfinished computed tokens that are on no completed request's account.
    """
    requests, completed = log.requests, _completed(log)
    computed = int(log.leaps.prefill_tokens.sum())
    there = requests.cached + requests.loaded
    fresh = int((log.samples * requests.prompt - there)[completed].sum())
    again = int(requests.recomputed[completed].sum())
    owed = fresh + again + len(log.resumed_gaps)
    if computed < owed or (_only_whole_attempts(log) and computed > owed):
        raise InvariantBroken(
            f"{computed} tokens were computed by prefill and {owed} were owed ({fresh} of prompts, {again} "
            f"computed again, {len(log.resumed_gaps)} generated before preemptions)"
        )


def _check_leaps(log: RunLog) -> None:
    """A replica does one step at a time."""
    leaps = log.leaps
    row = _first(leaps, lambda part: (leap_durations(part) < 0) | (part.steps < 1))
    if row is not None:
        seconds = leap_durations(leap_rows(leaps, slice(row, row + 1)))[0]
        raise InvariantBroken(f"leap {row} has {leaps.steps[row]} steps in {seconds} s")
    for rows, _ in leap_parts(leaps):
        after = leap_rows(leaps, slice(rows.start + 1, rows.stop + 1))
        part = leap_rows(leaps, slice(rows.start, rows.start + len(after.start)))
        end = part.start + leap_durations(part)
        overlaps = np.flatnonzero((part.replica == after.replica) & (after.start < end - TIME_TOLERANCE))
        if len(overlaps):
            row = int(overlaps[0])
            raise InvariantBroken(
                f"replica {part.replica[row]} starts a leap at {after.start[row]} s and is busy until {end[row]} s"
            )


def _check_little(log: RunLog) -> None:
    """Little's law as an identity: the time integral of the number in the system is the sum of the times in it.

    The integral is the area between the number that came and the number that left, summed by strips of height 1: from
    the k-th to come to the k-th to leave, whoever that is. Nobody leaves before anybody came if no strip is negative.
    """
    requests, completed = log.requests, _completed(log)
    arrival, finish = requests.arrival[completed], requests.finish[completed]
    total = float((finish - arrival).sum())
    arrival.sort()
    finish.sort()
    strips = finish - arrival
    integral = float(strips.sum())
    if (strips < 0).any() or not _same(integral, total):
        raise InvariantBroken(
            f"the number in the system integrates to {integral} s, times in it sum to {total} s"
        )


def _check_service(log: RunLog) -> None:
    """Little's law for the batch: what leaps hold of sequences times seconds, requests spent in the batch.

    A preempted sequence is out of the batch for a part of its time, so the leaps may then hold less. Attempts
    that were lost or are unfinished leave leaps and no request to compare with.
    """
    if not _only_whole_attempts(log):
        return
    requests, completed = log.requests, _completed(log)
    in_leaps = sum_over_time(log.leaps, lambda part: part.running)
    in_requests = float(requests.service[completed].sum())
    may_be_less = bool(requests.preemptions.any())
    if not _same(in_leaps, in_requests) and not (may_be_less and in_leaps < in_requests):
        raise InvariantBroken(f"leaps hold {in_leaps} s of sequences in the batch, requests {in_requests} s")


def _same(left: float, right: float) -> bool:
    return abs(left - right) <= RELATIVE_TOLERANCE * max(1.0, abs(left), abs(right))
