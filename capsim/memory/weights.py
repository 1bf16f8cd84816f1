from __future__ import annotations

from capsim.catalog.model import DTYPE_BYTES, Model, check_dtype


def weight_bytes(model: Model, tensor_parallel_size: int, weight_dtype: str) -> int:
    """Bytes of weights on one rank.

    With fp8 the linear layers take 1 byte an element; embedding, output projection, norms and biases stay at 2.
    Linear layers, embedding and output projection are split over the ranks (vLLM pads the vocabulary to a multiple
    of 64 first, which is not counted), key and value projections are replicated where there are more ranks than KV
    heads, and norms are replicated always.

    Raises:
        BadInput: an unknown dtype, or a number of ranks that cannot share the model.
    """
    check_dtype("weight dtype", weight_dtype)
    ranks = tensor_parallel_size
    query = model.attention_heads * model.head_dim // ranks
    key_value = 2 * model.kv_heads_of_rank(ranks) * model.head_dim
    attention = model.hidden_size * (2 * query + key_value)
    linear = model.layers * (attention + model.mlp_parameters // ranks)
    bias = query + key_value if model.attention_bias else 0
    small = model.layers * (model.norm_parameters + bias) + model.hidden_size
    embeddings = (1 if model.tied_embeddings else 2) * model.embedding_parameters // ranks
    return linear * DTYPE_BYTES[weight_dtype] + 2 * (small + embeddings)
