"""Layers with experts: how many of them a step touches, and the seconds that they take on the busiest rank."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from capsim.catalog.model import Experts, Model
from capsim.cost.efficiency import Efficiency
from capsim.cost.kernels import ACTIVATION_BYTES, Kernels, Precision
from capsim.errors import BadInput


class ExpertLoad(NamedTuple):
    """What one rank has to do in an expert layer.

    Attributes:
        touched: experts whose weights are read.
        rows: pairs of a token and an expert that it goes through.
    """

    touched: float
    rows: float


class Routing:
    """Which experts tokens go through, as chances: token by token independently, without repetition.

    The i-th most popular expert is chosen with a weight of ``i ** -skew``: 0 is uniform routing. Its chance q to be
    among a token's experts is that weight scaled so that the chances add up to the experts per token, and at most 1.
    Of E experts ``sum(1 - (1 - q) ** tokens)`` are touched on average: ``E * (1 - (1 - k / E) ** tokens)`` where
    routing is uniform, k at one token, and all at many.

    Args:
        experts: of a model.
        skew: exponent of the power law, 0 or more.

    Raises:
        BadInput: a negative skew.
    """

    def __init__(self, experts: Experts, skew: float = 0.0) -> None:
        if skew < 0:
            raise BadInput(f"routing_skew {skew:g}, expected 0 (uniform) or more")
        self._count = experts.count
        self._chances = _chances(experts.count, experts.per_token, skew)

    def touched(self, tokens: int) -> float:
        """Experts that at least one of `tokens` tokens goes through, on average."""
        return float((1 - (1 - self._chances) ** tokens).sum())

    def busiest(self, tokens: int, ranks: int) -> ExpertLoad:
        """Average load of the rank that has the most popular expert, when whole experts are dealt out to `ranks`.

        The other experts of that rank are average ones. Chance makes some rank busier still at few tokens, which is
        not counted, except that one rank at least works on one expert.
        """
        held = -(-self._count // ranks)
        others = (held - 1) / (self._count - 1) if self._count > 1 else 0.0
        hottest = float(self._chances[0])
        first = 1 - (1 - hottest) ** tokens
        touched = first + (self.touched(tokens) - first) * others
        rows = tokens * (hottest + float(self._chances[1:].sum()) * others)
        return ExpertLoad(max(touched, 1.0), max(rows, 1.0))


class ExpertLayer:
    """Seconds of the router and the experts of one layer, which stand where a dense layer has its MLP.

    The layer's tokens are on every rank, as after the all-reduce of tensor-parallel attention. Either each expert is
    split over the ranks, or with expert parallelism each rank computes its own experts for all tokens; in both cases
    the all-reduce that ends the layer adds up the ranks' parts. (Engines exchange tokens between ranks, all to all,
    only where each rank computes attention for tokens of its own.)

    Args:
        model: with experts.
        kernels: of one rank.
        ranks: GPUs that share each layer.
        expert_parallel: whole experts are dealt out to the ranks.
        skew: of the routing, see `Routing`.
        precision: of the experts' weights.
        wide: of the router's.
        efficiency: for the least time of the layer's kernels.
    """

    def __init__(
        self,
        model: Model,
        experts: Experts,
        kernels: Kernels,
        ranks: int,
        expert_parallel: bool,
        skew: float,
        precision: Precision,
        wide: Precision,
        efficiency: Efficiency,
    ) -> None:
        self.routing = Routing(experts, skew)
        self._experts = experts
        self._kernels = kernels
        self._holders = ranks if expert_parallel else 1
        self._hidden = model.hidden_size
        self._columns = experts.intermediate_size / (1 if expert_parallel else ranks)
        self._shared_columns = experts.shared * experts.intermediate_size / ranks
        self._precision = precision
        self._wide = wide
        self._latency = efficiency.narrow_expert_latency if precision.narrow else efficiency.expert_latency

    def seconds(self, tokens: int) -> float:
        """Router, chosen experts and shared experts for `tokens` tokens."""
        router = self._kernels.product(tokens, self._experts.count, self._hidden, self._wide)
        return router + self.chosen_seconds(tokens) + self._shared_seconds(tokens)

    def chosen_seconds(self, tokens: int) -> float:
        """The experts that `tokens` tokens have chosen, without router and shared experts.

        They are one chain of small kernels around two grouped products (choice and sorting of the
        tokens, gate and up, activation, down, weighted sum), whose latencies are one figure. Activation and sum run
        over all pairs of a token and an expert on every rank, zeros standing for other ranks' experts, as vLLM's
        fused kernels have it.
        """
        touched, rows = self.routing.busiest(tokens, self._holders)
        kernels, hidden, columns = self._kernels, self._hidden, self._columns
        products = kernels.grouped_product(rows, 2 * columns, hidden, touched, self._precision)
        products += kernels.grouped_product(rows, hidden, columns, touched, self._precision)
        pairs = tokens * self._experts.per_token
        moved = (3 * pairs * columns + (pairs + tokens) * hidden) * ACTIVATION_BYTES
        return self._latency + products + kernels.moving(moved)

    def weight_bytes(self, tokens: int) -> float:
        """Bytes of weights that the busiest rank reads for `tokens` tokens, of one layer."""
        touched = self.routing.busiest(tokens, self._holders).touched
        chosen = 3 * self._hidden * (touched * self._columns + self._shared_columns)
        return chosen * self._precision.bytes + self._hidden * self._experts.count * self._wide.bytes

    def _shared_seconds(self, tokens: int) -> float:
        columns = self._shared_columns
        if not columns:
            return 0.0
        gate_up = self._kernels.product(tokens, 2 * columns, self._hidden, self._precision)
        down = self._kernels.product(tokens, self._hidden, columns, self._precision)
        return gate_up + down + self._kernels.elementwise(3 * tokens * columns * ACTIVATION_BYTES)


def _chances(count: int, per_token: int, skew: float) -> NDArray[np.float64]:
    """Chance of each expert to be among a token's, most popular first, shape (count,); they add up to `per_token`."""
    weights = np.arange(1, count + 1, dtype=np.float64) ** -skew
    for certain in range(per_token):
        scaled = weights[certain:] * ((per_token - certain) / weights[certain:].sum())
        if scaled[0] <= 1:
            return np.concatenate((np.ones(certain), scaled))
    return np.concatenate((np.ones(per_token), np.zeros(count - per_token)))
