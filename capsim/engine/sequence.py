from __future__ import annotations

import math

from capsim.engine.free_queue import Run


class Sequence:
    """A request on a replica: computed tokens that catch up with its total tokens.

    There is no prefill or decode phase. A sequence owes `target` computed tokens before its next token appears: its
    prompt at first, prompt plus generated tokens after a preemption, and one more each time while it decodes (kept by
    the batch it decodes in, see `DecodeBatch`).

    Attributes:
        request: row of the request in the run log.
        prompt, output: tokens.
        submitted, scheduled, first_token, finish: seconds at the engine, NaN until they happen.
        target: tokens to compute before the next token is generated.
        computed: tokens computed so far, while not decoding.
        generated: tokens generated before the current decode run.
        joined: step at which it began to decode, -1 while it does not.
        end_step: step at whose end it generates its last token, -1 while it does not decode.
        admitted: serial number of its last admission; the running order.
        last_token: when it last generated a token before a preemption, seconds.
        cached: prompt tokens found in the prefix cache.
        preemptions: how often its KV was taken away.
        kept: its blocks in the queue of free ones after a preemption, None if there are none to look for.
    """

    __slots__ = (
        "admitted",
        "cached",
        "computed",
        "end_step",
        "finish",
        "first_token",
        "generated",
        "joined",
        "kept",
        "last_token",
        "output",
        "preemptions",
        "prompt",
        "request",
        "scheduled",
        "submitted",
        "target",
    )

    def __init__(self, request: int, prompt: int, output: int, submitted: float) -> None:
        self.request = request
        self.prompt = prompt
        self.output = output
        self.submitted = submitted
        self.scheduled = self.first_token = self.finish = self.last_token = math.nan
        self.target = prompt
        self.kept: Run | None = None
        self.computed = self.generated = self.cached = self.preemptions = 0
        self.joined = self.end_step = self.admitted = -1
