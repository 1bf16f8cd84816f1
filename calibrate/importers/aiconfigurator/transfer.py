"""Kernel times of one GPU carried over to another of the same compute, whose memory is faster or slower."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrate.importers.aiconfigurator.ceilings import Ceilings
from calibrate.importers.aiconfigurator.source import Columns, Heads, Source
from capsim.catalog import Gpu
from capsim.catalog.model import DTYPE_BYTES
from capsim.errors import BadInput, Fault

_ACTIVATION_BYTES = 2  # activations are 16-bit whatever the weights are
_PAIR_FLOPS = (
    4  # of a pair of query and key and one element of a head: two products, multiplication and addition
)


@dataclass(frozen=True)
class Transfer:
    """The rule: a kernel keeps what it takes above its bound, and its bound becomes the other GPU's.

    A kernel takes at least the longer of its arithmetic and its memory traffic. What it takes beyond (launch, ramp-up,
    tail, tiles that are not full, latencies) happens on the same multiprocessors at the same clock, so it stays as it
    was measured. So the time of a kernel that arithmetic binds stays, that of one that streams as fast as the memory
    can grows by the ratio of the bandwidths, and what lies between by the share that it streams.

    Source of the bound: Williams, Waterman and Patterson, Roofline (2009). The rest is the argument above; how far it
    is off on kernels that were measured on both GPUs stands in the documentation.

    Attributes:
        measured: ceilings of the GPU that was measured.
        target: those of the other one, the same shares of its data sheet.
    """

    measured: Ceilings
    target: Ceilings

    @classmethod
    def between(cls, measured: Gpu, target: Gpu) -> Transfer:
        """The rule for two GPUs.

        Raises:
            BadInput: they are the same, or differ in their arithmetic or links, of which the rule says nothing.
        """
        what = f"{target.name} cannot be derived from {measured.name}"
        if measured.name == target.name:
            raise BadInput(Fault("--scale-to", f"{what}: it was measured itself"))
        pairs: list[tuple[str, float, float | None]] = [
            (f"{dtype} FLOP/s", rate, measured.dense_flops.get(dtype))
            for dtype, rate in target.dense_flops.items()
        ]
        pairs.append(("link bandwidth", target.link_bandwidth, measured.link_bandwidth))
        differences = [name for name, asked, found in pairs if asked != found]
        if differences:
            expected = "a GPU of the same arithmetic and links, whose memory alone differs"
            raise BadInput(
                Fault("--scale-to", f"{what}: they differ in {', '.join(differences)}", "", expected)
            )
        ceilings = Ceilings.of(measured)
        share = ceilings.bandwidth / measured.memory_bandwidth
        return cls(ceilings, Ceilings(target, share * target.memory_bandwidth, ceilings.flops))

    def gemm(self, columns: Columns, dtype: str) -> Columns:
        """Linear layers, see `Source.gemm`: weights, inputs and outputs moved once."""
        m, n, k = (columns[axis] for axis in ("m", "n", "k"))
        moved = n * k * DTYPE_BYTES[dtype] + m * (n + k) * _ACTIVATION_BYTES
        return self._carried(columns, moved, 2 * m * n * k, dtype)

    def prefill(self, columns: Columns, heads: Heads) -> Columns:
        """Attention of a prompt, see `Source.prefill`: queries, keys, values and outputs moved once."""
        new = columns["new"]
        moved = new * 2 * (heads.query + heads.key_value) * heads.size * _ACTIVATION_BYTES
        flops = _PAIR_FLOPS * heads.query * heads.size * new * (new + 1) / 2
        return self._carried(columns, moved, flops, "bfloat16")

    def decode(self, columns: Columns, heads: Heads) -> Columns:
        """Attention of decodes, see `Source.decode`: the KV cache of each read once."""
        tokens = columns["decodes"] * columns["context"]
        moved = tokens * 2 * heads.key_value * heads.size * DTYPE_BYTES[heads.kv_dtype]
        return self._carried(columns, moved, _PAIR_FLOPS * heads.query * heads.size * tokens, "bfloat16")

    def sentence(self) -> str:
        """The rule, for the notes of a profile."""
        here, there = self.measured, self.target
        return (
            f"derived: kernels were measured on {here.gpu.name}, not on {there.gpu.name}, which has the same "
            "arithmetic and links; each keeps what it takes above its bound, the longer of its FLOPs and its bytes, "
            f"and the bound becomes that of {there.bandwidth / 1e12:.3g} instead of "
            f"{here.bandwidth / 1e12:.3g} TB/s; all-reduces stay"
        )

    def _carried(
        self, columns: Columns, moved: NDArray[np.float64], flops: NDArray[np.float64], dtype: str
    ) -> Columns:
        here, there = (
            np.maximum(moved / ceilings.bandwidth, flops / ceilings.arithmetic(dtype))
            for ceilings in (self.measured, self.target)
        )
        return {**columns, "seconds": np.maximum(columns["seconds"] + there - here, there)}


class TransferredSource(Source):
    """The tables of a GPU that was not measured, from those of one that was."""

    def __init__(self, source: Source, transfer: Transfer) -> None:
        super().__init__(source.path, source.engine)
        self._source = source
        self._transfer = transfer
        self.engine_version, self.release, self.files = source.engine_version, source.release, source.files
        self.notes = [*source.notes, transfer.sentence()]

    def gemm(self, dtype: str) -> Columns:
        """See `Source`."""
        return self._transfer.gemm(self._source.gemm(dtype), dtype)

    def prefill(self, heads: Heads) -> Columns:
        """See `Source`."""
        return self._transfer.prefill(self._source.prefill(heads), heads)

    def decode(self, heads: Heads) -> Columns:
        """See `Source`."""
        return self._transfer.decode(self._source.decode(heads), heads)

    def experts(self, dtype: str) -> Mapping[str, NDArray[Any]]:
        """Refused: which experts a batch reads is not recorded, and so neither are the bytes.

        Raises:
            BadInput: always.
        """
        what = f"the bytes that a batch reads of a layer's {dtype} experts are not recorded"
        raise BadInput(Fault("--scale-to", what, "", "a model without experts"))

    def all_reduce(self, ranks: int) -> tuple[Columns, Columns]:
        """As measured: the links are the same."""
        return self._source.all_reduce(ranks)
