"""What was full in a replica, or else slow."""

from __future__ import annotations

from capsim.report import Json

FULL_POOL = 0.95
"""Share of the KV pool from which it is called full: the next sequence of average length no longer fits, where some
twenty run."""
FULL_BATCH = 0.9
"""Share of max_num_seqs, as a mean over busy time, from which the batch is called full: it then often is."""


def constraint(
    *,
    pool_share: float | None,
    preemptions: float | None,
    running: float | None,
    max_num_seqs: int,
    waiting: float | None,
    overloaded: bool,
) -> Json:
    """The name of what limits a replica, and the figures that it is taken from.

    Args:
        pool_share: most of the KV pool that was held.
        preemptions: of the run.
        running: sequences in the batch, mean over busy time.
        max_num_seqs: most of them.
        waiting: sequences in the queue, mean over busy time.
        overloaded: whether more was offered than is served.
    """
    if preemptions or (pool_share or 0) >= FULL_POOL:
        name = "KV cache"
    elif (running or 0) >= FULL_BATCH * max_num_seqs:
        name = "max_num_seqs"
    else:
        name = "throughput" if overloaded else "step time"
    return {
        "name": name,
        "pool_share": pool_share,
        "preemptions": preemptions,
        "running": running,
        "max_num_seqs": max_num_seqs,
        "waiting": waiting,
    }


def constraint_at(point: Json, memory: Json) -> Json:
    """The same of a fleet at a rate.

    Args:
        point: as `capsim.plan.point.Point.as_dict` gives it.
        memory: as a plan's result gives it.
    """
    return constraint(
        pool_share=point["blocks_max"] / memory["usable_blocks"],
        preemptions=point["preemptions"],
        running=point["running"],
        max_num_seqs=memory["max_num_seqs"],
        waiting=point["waiting"],
        overloaded=bool(point["overloaded"]),
    )
