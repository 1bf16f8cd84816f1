from __future__ import annotations

from capsim.catalog.model import WEIGHT_BYTES, Model, check_dtype
from capsim.catalog.stage import Stage, pipeline_stages
from capsim.errors import BadInput


def weight_bytes(
    model: Model,
    tensor_parallel_size: int,
    weight_dtype: str,
    *,
    expert_parallel: bool = False,
    data_parallel_size: int = 1,
    stage: Stage | None = None,
) -> int:
    """Bytes of weights on one rank.

    With fp8 the linear layers take 1 byte an element, with int8 and int4 1 and 0.5 and the scales of their groups;
    embedding, output projection, routers, norms and biases stay at 2. Linear layers, embedding and output projection
    are split over the ranks (vLLM pads the vocabulary to a multiple of 64 first, which is not counted), key and value
    projections are replicated where there are more ranks than KV heads, and routers and norms are replicated always.
    With data-parallel attention each group of ranks holds all of that, and the experts that a router chooses from are
    shared by the ranks of all groups (vLLM's documentation, "Data Parallel Deployment" and "Expert Parallel
    Deployment").

    Args:
        model: dense or with experts, of any attention kind.
        tensor_parallel_size: ranks that share each layer.
        weight_dtype: one of `WEIGHT_BYTES`.
        expert_parallel: experts are dealt out whole to the ranks, instead of each one being split over all. Where
            they do not come out even, the bytes are those of a rank that has one more.
        data_parallel_size: groups of ranks with sequences of their own.
        stage: of a pipeline; None: the rank holds all layers.

    Raises:
        BadInput: an unknown dtype, or a number of ranks that cannot share the model or, without expert parallelism,
            each expert.
    """
    check_dtype("weight dtype", weight_dtype, WEIGHT_BYTES)
    ranks = tensor_parallel_size
    if stage is None:
        (stage,) = pipeline_stages(model)
    linear = _attention_of_rank(model, ranks, stage) + stage.dense_layers * (model.mlp_parameters // ranks)
    linear += stage.expert_layers * _experts_of_rank(model, ranks, data_parallel_size, expert_parallel)
    small = stage.layers * (model.norm_parameters + _biases_of_rank(model, ranks))
    small += stage.expert_layers * model.router_parameters
    if stage.projects:
        small += model.hidden_size
    # A tied embedding is held once by a rank that needs it for both ends.
    ends = stage.embeds + stage.projects if not model.tied_embeddings else stage.embeds or stage.projects
    embeddings = ends * model.embedding_parameters // ranks
    return int(linear * WEIGHT_BYTES[weight_dtype]) + 2 * (small + embeddings)


def _attention_of_rank(model: Model, ranks: int, stage: Stage) -> int:
    """Weights of the attention of a stage's layers on one rank, elements without biases.

    KV heads and a latent's way down are held by every rank that needs them; linear attention is split by head.
    """
    model.check_splits_over(ranks)
    alone, full = stage.holds(model.mlp_layers), stage.holds(model.full_layers)
    linear_layers = 0 if model.linear is None else stage.layers - full - alone
    rest = stage.layers - linear_layers - alone
    if model.latent is not None:
        whole = model.latent.replicated_parameters(model.hidden_size)
        shared = model.latent.split_parameters(model.hidden_size, model.attention_heads)
        held = rest * (whole + shared // ranks)
    else:
        query, key_value = _heads_of_rank(model, ranks)
        held = rest * model.hidden_size * ((3 if model.output_gate else 2) * query + key_value)
    if model.linear is not None:
        whole = model.linear.replicated_parameters(model.hidden_size)
        held += linear_layers * (whole + model.linear.split_parameters(model.hidden_size) // ranks)
    return held


def _heads_of_rank(model: Model, ranks: int) -> tuple[int, int]:
    """Columns of the query projection, and of key and value projections together, on one rank."""
    query = model.attention_heads * model.head_dim // ranks
    return query, 2 * max(1, model.kv_heads // ranks) * model.head_dim


def _biases_of_rank(model: Model, ranks: int) -> int:
    return sum(_heads_of_rank(model, ranks)) if model.attention_bias else 0


def _experts_of_rank(model: Model, ranks: int, groups: int, expert_parallel: bool) -> int:
    """Weights of one layer's experts on the rank that has most, elements; shared ones are shared within a group."""
    if model.experts is None:
        return 0
    chosen, shared = model.experts.count, model.experts.shared * model.expert_parameters // ranks
    if expert_parallel:
        return -(-chosen // (ranks * groups)) * model.expert_parameters + shared
    if not model.experts_split_over(ranks * groups):
        raise BadInput(
            f"data_parallel_size {groups} and tensor_parallel_size {ranks}: {ranks * groups} ranks do not divide "
            f"the {model.experts.intermediate_size} columns of {model.name}'s experts, expected "
            "enable_expert_parallel"
        )
    return chosen * model.expert_parameters // (ranks * groups) + shared
