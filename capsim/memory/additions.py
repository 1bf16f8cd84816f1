"""What an engine may hold beside one model: a draft that speculates, adapters, and memory set aside."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from capsim.catalog.model import Model
from capsim.catalog.stage import Stage
from capsim.errors import BadInput
from capsim.memory.kv import KvLayout
from capsim.memory.weights import weight_bytes


@dataclass(frozen=True)
class Draft:
    """A model that drafts tokens for the large one to verify.

    Attributes:
        model: its shapes; its layers' KV cache has the same bytes a token as the large model's, as EAGLE's and MTP's.
        weight_dtype: of its weights.
        shares_embeddings: embedding and output projection are the large model's.
    """

    model: Model
    weight_dtype: str = "bfloat16"
    shares_embeddings: bool = True

    def weight_bytes(self, ranks: int) -> int:
        """Bytes of its weights on one rank."""
        whole = weight_bytes(self.model, ranks, self.weight_dtype)
        if not self.shares_embeddings:
            return whole
        ends = 1 if self.model.tied_embeddings else 2
        return whole - 2 * (ends * self.model.embedding_parameters // ranks)


@dataclass(frozen=True)
class LoraSlots:
    """Room for low-rank adapters, held from the start whether they are used or not.

    Attributes:
        max_loras: adapters that can be used in one step.
        max_lora_rank: highest rank of an adapter.
    """

    max_loras: int
    max_lora_rank: int

    def bytes(self, model: Model, ranks: int, layers: int) -> int:
        """Bytes on one rank: two matrices for each of the seven projections of a layer, 16 bits an element.

        The side that the projection shares out over the ranks is split with it, the other one is held by each rank
        (``lora_a_stacked`` and ``lora_b_stacked`` of vllm/lora/layers, without fully_sharded_loras).

        Raises:
            BadInput: a model with experts or another attention than grouped-query, whose adapters are not counted.
        """
        if model.experts is not None or model.attention != "gqa":
            raise BadInput(f"LoRA slots of {model.name}: expected a dense model with grouped-query attention")
        query = model.attention_heads * model.head_dim // ranks
        key_value = max(1, model.kv_heads // ranks) * model.head_dim
        columns, hidden = model.intermediate_size // ranks, model.hidden_size
        widths = 2 * (hidden + query) + 2 * (hidden + key_value) + 3 * (hidden + columns)
        return 2 * self.max_loras * self.max_lora_rank * widths * layers


@dataclass(frozen=True)
class Additions:
    """What a rank holds beside one model's own.

    Attributes:
        draft: held by the last stage of a pipeline.
        lora: slots for adapters.
        reserve: bytes left free on purpose.
    """

    draft: Draft | None = None
    lora: LoraSlots | None = None
    reserve: int = 0

    def sizes(self, model: Model, ranks: int, stage: Stage) -> Iterator[tuple[str, int, str, str]]:
        """Name, bytes, tag and note of what one rank of a stage holds."""
        if self.draft is not None and stage.projects:
            note = f"{self.draft.model.name}, {self.draft.weight_dtype}"
            yield "draft model", self.draft.weight_bytes(ranks), "derived", note
        if self.lora is not None:
            note = f"{self.lora.max_loras} of rank {self.lora.max_lora_rank} at most"
            yield "LoRA slots", self.lora.bytes(model, ranks, stage.layers), "derived", note
        if self.reserve:
            yield "reserve", self.reserve, "stated", "left free"

    def layout(self, layout: KvLayout, ranks: int, kv_dtype: str, block_size: int, stage: Stage) -> KvLayout:
        """The KV cache with the draft's layers in every block.

        Raises:
            BadInput: a draft whose layers do not have the bytes of the model's.
        """
        if self.draft is None or not stage.projects:
            return layout
        draft = KvLayout.of(self.draft.model, ranks, kv_dtype, block_size)
        if not (layout.plain and draft.plain and draft.page_bytes == layout.page_bytes):
            raise BadInput(f"draft {self.draft.model.name}: its layers' KV cache differs from the model's")
        (group,) = layout.groups
        layers = layout.layers + draft.layers
        return replace(layout, groups=(replace(group, layers=layers),), layers=layers)


NOTHING_BESIDE = Additions()
"""One model alone."""
