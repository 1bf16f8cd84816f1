from __future__ import annotations

import math

from capsim.engine.run import Run

Path = tuple[tuple[int, int], ...]
NO_PATH: Path = ()
NO_RUNS: list[Run] = []  # shared by the many sequences that have none, and never changed
NO_HOLDS: list[tuple[Run, int]] = []
NO_RANK = (0, -math.inf, -1)


class Sequence:
    """A request on a replica: computed tokens that catch up with its total tokens.

    There is no prefill or decode phase. A sequence owes `target` computed tokens before its next token appears: its
    prompt at first, prompt plus generated tokens after a preemption, and one more each time while it decodes (kept by
    the batch it decodes in, see `DecodeBatch`).

    Attributes:
        request: row of the request in the run log.
        prompt, output: tokens.
        priority: smaller goes first, where the engine heeds it.
        rank: its place in a queue by priority: `priority`, `submitted`, serial number of its arrival.
        submitted, scheduled, first_token, finish: seconds at the engine, NaN until they happen.
        target: tokens to compute before the next token is generated.
        computed: tokens computed so far, while not decoding.
        generated: tokens generated before the current decode run.
        joined: step at which it began to decode, -1 while it does not.
        end_step: step at whose end it generates its last token, -1 while it does not decode.
        admitted: serial number of its last admission; the running order.
        last_token: when it last generated a token before a preemption, seconds.
        preemptions: how often its KV was taken away.
        path: nodes of the tree of contents that its prompt passes, and the token at which each one ends.
        cached: tokens found in the prefix cache when it was first admitted.
        loaded: tokens found in tiers of KV offload then, and loaded.
        found: tokens found in either when it was admitted again after preemptions.
        lost: tokens that it had computed when it was preempted last.
        recomputed: of those, tokens computed again, over all preemptions.
        first: number of the first KV block that it computes itself, or will; it holds those before in `holds`.
        holds: runs of blocks that it found, in order, and up to which block it holds each.
        run: its own blocks of content that others may share, None if it computes none.
        kept: its own blocks of other content, left behind by preemptions.
        ready: when the blocks that it waits for are loaded, seconds; negative while it waits for none.
    """

    __slots__ = (
        "admitted",
        "cached",
        "computed",
        "end_step",
        "finish",
        "first",
        "first_token",
        "found",
        "generated",
        "holds",
        "joined",
        "kept",
        "last_token",
        "loaded",
        "lost",
        "output",
        "path",
        "preemptions",
        "priority",
        "prompt",
        "rank",
        "ready",
        "recomputed",
        "request",
        "run",
        "scheduled",
        "submitted",
        "target",
    )

    def __init__(
        self,
        request: int,
        prompt: int,
        output: int,
        submitted: float,
        path: Path = NO_PATH,
        priority: int = 0,
    ) -> None:
        self.request = request
        self.prompt = prompt
        self.output = output
        self.submitted = submitted
        self.scheduled = self.first_token = self.finish = self.last_token = math.nan
        self.target = prompt
        self.path = path
        self.priority = priority
        self.rank = NO_RANK
        self.kept = NO_RUNS
        self.holds = NO_HOLDS
        self.run: Run | None = None
        self.computed = self.generated = self.preemptions = self.first = 0
        self.cached = self.loaded = self.found = self.lost = self.recomputed = 0
        self.ready = -1.0
        self.joined = self.end_step = self.admitted = -1
