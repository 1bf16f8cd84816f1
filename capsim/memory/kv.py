"""How many bytes and blocks the KV cache takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from capsim.catalog.attention import HeadAttention, LayerGroup, LinearAttention
from capsim.catalog.model import Model
from capsim.catalog.stage import Stage
from capsim.errors import BadInput
from capsim.memory.kv_group import KvGroup, check_kv_dtype, token_bytes, window_of

BLOCK_ALIGNMENT = 16
"""Tokens that a hybrid's raised block size is a multiple of: what vLLM's attention kernels ask for."""

LATENT_ALIGNMENT = 64
"""The same where the attention has a latent; kernels for the newest GPUs ask for 128."""

SIMILAR = Fraction(3, 2)
"""Below so many times the fewest layers, groups are padded to the most (vLLM; 5 / 4 in its first versions)."""


@dataclass(frozen=True)
class KvLayout:
    """The KV cache of one rank: groups of layers, and the blocks in which their tokens are allocated.

    One pool serves all groups, so a block of any of them has the same bytes: layers of each kind are cut into groups
    of equally many (the last one padded), and a block holds as many tokens as make its bytes equal. A state takes a
    block by itself, and the block size is raised until it fits. Source: ``get_kv_cache_groups`` of
    vllm/v1/core/kv_cache_utils.py, and ``HybridAttentionMambaModelConfig`` of vllm/model_executor/models/config.py.

    Attributes:
        groups: one for a model whose layers are all alike.
        page_bytes: bytes of a block in one layer.
        layers: layers that each group is allocated for.
        block_size: tokens that a block of the full attention stands for; with decode context parallelism those of
            all ranks that share a sequence.
    """

    groups: tuple[KvGroup, ...]
    page_bytes: int
    layers: int
    block_size: int

    @classmethod
    def of(
        cls,
        model: Model,
        tensor_parallel_size: int,
        kv_dtype: str,
        block_size: int,
        layers: int | None = None,
        *,
        stage: Stage | None = None,
        decode_context_parallel_size: int = 1,
        frees_windows: bool = True,
        state_blocks: int = 1,
    ) -> KvLayout:
        """Layout of a model's cache on one rank.

        KV heads are split over the ranks and replicated where there are more ranks than heads; a latent is held by
        every rank in full. A token takes ``2 * KV heads of the rank * head_dim`` elements a layer, or
        ``kv_rank + rope_head_dim`` with a latent.

        Args:
            model: any attention kind of the catalog.
            tensor_parallel_size: ranks that share a sequence's heads.
            kv_dtype: ``bfloat16``, ``float16``, ``fp8``, ``float32``, or ``fp8_ds_mla`` of a latent.
            block_size: tokens in a block, as set.
            layers: layers of a pipeline's stage, of a model whose layers are all alike; None: all.
            stage: of a pipeline, for any model.
            decode_context_parallel_size: ranks that share the tokens of a sequence among those that would hold copies.
            frees_windows: False: windowed layers keep every token, as engines without hybrid groups do.
            state_blocks: blocks that a sequence's state takes: 1, or 2 where vLLM caches prefixes (a state at a
                block's end beside the running one; ``mamba_cache_mode`` ``align``), and 1 more for each draft token.

        Raises:
            BadInput: an unknown dtype, a block size below 1, or a degree of parallelism that does not divide the
                heads or cannot share the tokens.
        """
        ranks, shared = tensor_parallel_size, decode_context_parallel_size
        kinds = model.layer_groups if frees_windows else _without_windows(model)
        _refuse_impossible(model, kinds, ranks, kv_dtype, block_size, shared)
        sizes = [token_bytes(kind.attention, ranks, kv_dtype) for kind in kinds]
        states = [_state_bytes(kind, ranks) for kind in kinds]
        alignment = BLOCK_ALIGNMENT if model.latent is None else LATENT_ALIGNMENT
        block_size = _raised(block_size, sizes, states, alignment)
        page = max(block_size * size for size in sizes) or max(states)
        groups = tuple(
            KvGroup(
                kind=kinds[index].attention.kind,
                layers=_held(dealt, model, layers, stage),
                block_size=shared * _tokens_of_page(model, page, sizes[index], block_size),
                token_bytes=sizes[index],
                state_bytes=states[index],
                window=window_of(kinds[index].attention),
                state_blocks=state_blocks,
                shared=shared,
            )
            for index, dealt in _dealt(kinds)
        )
        return cls(groups, page, max(group.layers for group in groups), groups[0].block_size)

    @property
    def plain(self) -> bool:
        """Whether every token takes equally many bytes, at any length."""
        return len(self.groups) == 1 and self.groups[0].kind in ("full", "latent")

    @property
    def bytes_per_token(self) -> int:
        """Bytes of one token on one rank; where ranks share a sequence's tokens, their average, rounded down.

        Raises:
            BadInput: windows or states, where it depends on the length: see `marginal_bytes` and `sequence_bytes`.
        """
        if not self.plain:
            kinds = " and ".join(dict.fromkeys(group.kind for group in self.groups))
            raise BadInput(f"no one figure of KV bytes a token with {kinds} layers: it depends on the length")
        return self.bytes_per_block // self.block_size

    @property
    def bytes_per_block(self) -> int:
        """Bytes of one block on one rank."""
        return self.page_bytes * self.layers

    def blocks(self, tokens: int) -> int:
        """Blocks that a sequence holds once `tokens` tokens are computed."""
        return sum(group.blocks(tokens) for group in self.groups)

    def sequence_bytes(self, prompt: int, output: int) -> int:
        """Bytes of the blocks that a request holds at its end.

        The last output token is never fed back, so its keys and values are never written.
        """
        return self.blocks(prompt + output - 1) * self.bytes_per_block

    def used_bytes(self, tokens: int) -> int:
        """Bytes that a sequence's tokens and states need: what blocks add is rounding and padding."""
        return sum(group.used_bytes(tokens) for group in self.groups)

    def marginal_bytes(self, tokens: int) -> int:
        """Bytes that one more token after `tokens` adds, averaged over a block: those of the layers that still grow."""
        return sum(self.bytes_per_block // group.block_size for group in self.groups if group.grows(tokens))

    def peak_blocks(self, tokens: int, max_num_batched_tokens: int) -> int:
        """Blocks that an engine sets aside for one sequence of at most `tokens` tokens."""
        return sum(group.peak_blocks(tokens, max_num_batched_tokens) for group in self.groups)

    def concurrency(self, num_blocks: int, tokens: int, max_num_batched_tokens: int) -> float:
        """Sequences of `tokens` tokens for which this many blocks are set aside, as vLLM prints it."""
        return num_blocks / self.peak_blocks(tokens, max_num_batched_tokens)

    def printed_tokens(
        self, num_blocks: int, max_model_len: int, max_num_batched_tokens: int, *, by_concurrency: bool
    ) -> int:
        """The tokens that vLLM prints as the cache's size; of a hybrid no number of tokens that it holds.

        Args:
            num_blocks: blocks of the pool.
            max_model_len: longest sequence, tokens.
            max_num_batched_tokens: most tokens in a step.
            by_concurrency: True (vLLM 0.21 and later): `concurrency` of `max_model_len` times its tokens. False:
                blocks shared equally by the groups times the smallest block, as if windows and states grew too.
        """
        if by_concurrency:
            return num_blocks * max_model_len // self.peak_blocks(max_model_len, max_num_batched_tokens)
        return num_blocks // len(self.groups) * min(group.block_size for group in self.groups)


def _without_windows(model: Model) -> tuple[LayerGroup, ...]:
    """Layers by kind where windowed ones keep all tokens, as the full ones do."""
    if model.window is None:
        return model.layer_groups
    layers = sorted(layer for group in model.layer_groups for layer in group.layers)
    return (LayerGroup(model.full_attention, tuple(layers)),)


def _refuse_impossible(
    model: Model, kinds: Sequence[LayerGroup], ranks: int, kv_dtype: str, block_size: int, shared: int
) -> None:
    """Refuse what no engine would accept."""
    model.check_splits_over(ranks)
    check_kv_dtype(kv_dtype, model.latent is not None)
    if block_size < 1:
        raise BadInput(f"block_size {block_size}, expected at least 1 token")
    if shared != 1:
        _refuse_sharing(model, kinds, ranks, shared)


def _refuse_sharing(model: Model, kinds: Sequence[LayerGroup], ranks: int, shared: int) -> None:
    """Only ranks that hold copies of the same heads can share a sequence's tokens, and only where all are kept."""
    for kind in (group.attention for group in kinds):
        if isinstance(kind, LinearAttention) or (isinstance(kind, HeadAttention) and kind.window is not None):
            raise BadInput(
                f"decode_context_parallel_size {shared}: {model.name} has {kind.kind} layers, which vLLM does not "
                "share over ranks"
            )
        if shared < 1 or kind.copies(ranks) % shared:
            raise BadInput(
                f"decode_context_parallel_size {shared} does not divide the {kind.copies(ranks)} ranks that hold "
                f"copies of {model.name}'s KV cache"
            )


def _state_bytes(group: LayerGroup, ranks: int) -> int:
    return group.attention.sequence_bytes(ranks) if isinstance(group.attention, LinearAttention) else 0


def _raised(block_size: int, sizes: Sequence[int], states: Sequence[int], alignment: int) -> int:
    """Block size, raised to a multiple of `alignment` where a state would not fit into an attention layer's block."""
    if not any(sizes) or not any(states):
        return block_size
    return max(block_size, alignment * -(-max(states) // (alignment * max(sizes))))


def _tokens_of_page(model: Model, page: int, size: int, block_size: int) -> int:
    """Tokens of one layer in a page of the pool."""
    if size == 0:
        return block_size
    if page % (size * block_size):
        raise BadInput(
            f"model {model.name}: layers of {size} bytes a token do not share blocks of {page} bytes"
        )
    return page // size


def _dealt(kinds: Sequence[LayerGroup]) -> list[tuple[int, tuple[int, ...]]]:
    """Groups of equally many layers: the kind's index and its layers, dealt out in turn."""
    counts = [len(kind.layers) for kind in kinds]
    size = max(counts) if max(counts) < SIMILAR * min(counts) else min(counts)
    dealt = []
    for index, kind in enumerate(kinds):
        number = -(-len(kind.layers) // size)
        dealt += [(index, kind.layers[first::number]) for first in range(number)]
    return dealt


def _held(layers: tuple[int, ...], model: Model, count: int | None, stage: Stage | None) -> int:
    """Layers of a group that the rank holds."""
    if stage is not None:
        return sum(stage.first <= layer < stage.first + stage.layers for layer in layers)
    if count is None or count == model.layers:
        return len(layers)
    if len(model.layer_groups) > 1 or model.kv_shared_layers:
        raise BadInput(
            f"{count} layers of {model.name}, whose layers differ: expected the stage that holds them"
        )
    return count
