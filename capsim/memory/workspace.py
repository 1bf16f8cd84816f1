"""What an engine holds beside weights and KV: activations, CUDA graphs, and memory outside PyTorch.

The rules were derived from what vLLM prints when it starts. Figures: start-up logs of 30 models and settings under
vLLM 0.19.0 on H100, published with the accuracy results of the open-source llm-d-planner
(github.com/jgchn/llm-d-planner, accuracy/results/v0.19.0); older versions from the same project and llm-d.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from capsim.catalog.model import Model
from capsim.errors import BadInput

_GIB = 1 << 30
_RESERVE = int(0.12 * _GIB)


@dataclass(frozen=True)
class Workspace:
    """How one version of vLLM uses memory beside weights and KV.

    Attributes:
        bytes_per_logit: bytes of the sampler for each element of the logits.
        non_torch: bytes outside PyTorch of a rank: CUDA context and libraries.
        communication: bytes outside PyTorch that tensor parallelism adds to a rank: NCCL and all-reduce buffers.
        graphs_inside: CUDA graphs are taken from the KV budget.
        tokens_by_concurrency: the tokens of a KV cache are printed as the sequences of `max_model_len` that it holds,
            times that length; before, as blocks times their size, which says little of windows and states.
    """

    bytes_per_logit: int
    non_torch: int
    communication: int
    graphs_inside: bool
    tokens_by_concurrency: bool

    @classmethod
    def of(cls, engine_version: str) -> Workspace:
        """Rules of an engine version such as ``0.19.0`` or ``vllm 0.26.1rc1``.

        The 16-bit logits and three float32 copies (converted, scaled, probabilities) take 14 bytes an element. Up
        to 0.16 the profiling run also sorted them for top-k and top-p: 24 more (values, 64-bit indices, sorted
        probabilities and their running sum).

        Raises:
            BadInput: a text without a major and a minor number.
        """
        match = re.search(r"(\d+)\.(\d+)", engine_version)
        if match is None:
            raise BadInput(f"engine version {engine_version!r}, expected one such as '0.19.0'")
        version = (int(match[1]), int(match[2]))
        non_torch, communication = (0.25, 1.85) if version >= (0, 18) else (0.13, 0.42)
        return cls(
            bytes_per_logit=14 if version >= (0, 17) else 38,
            non_torch=int(non_torch * _GIB),
            communication=int(communication * _GIB),
            graphs_inside=version >= (0, 20),
            tokens_by_concurrency=version >= (0, 21),
        )

    def activation_bytes(
        self,
        model: Model,
        tensor_parallel_size: int,
        max_num_seqs: int,
        max_num_batched_tokens: int,
        *,
        expert_parallel: bool = False,
    ) -> int:
        """Peak of the activations in the profiling run, bytes: the larger of its two moments, and a reserve.

        In a layer the MLP holds gate and up (twice the intermediate size) and their product beside hidden state and
        residual, for every token of the largest batch; without a gate the way up and its activation. At the end the
        sampler holds the logits of every sequence: see `sampling_bytes`. Experts have buffers that stay allocated
        beside either. The reserve of 0.12 GiB (library workspaces, inputs) is what the logs show beyond either.
        """
        tokens = max_num_batched_tokens
        columns = model.intermediate_size // tensor_parallel_size if model.dense_layers else 0
        mlp = 2 * tokens * (3 if model.gated_mlp else 2) * columns + 4 * tokens * model.hidden_size
        experts = _expert_buffer_bytes(model, 1 if expert_parallel else tensor_parallel_size, tokens)
        sampling = self.sampling_bytes(
            model, tensor_parallel_size, max_num_seqs, tokens, expert_parallel=expert_parallel
        )
        return max(mlp + experts + _RESERVE, sampling)

    def sampling_bytes(
        self,
        model: Model,
        tensor_parallel_size: int,
        max_num_seqs: int,
        max_num_batched_tokens: int,
        *,
        expert_parallel: bool = False,
    ) -> int:
        """What is held while the profiling run samples, bytes; with `activation_bytes`' experts and reserve.

        The logits of every sequence, gathered from all ranks, beside the hidden state; `max_num_seqs` is 0 on a
        pipeline's stage that does not sample. Logs with 1,024 sequences bear it out over the vocabulary: before 0.17
        the peak was 4.84, 5.64 and 7.38 GiB with 128,256, 151,936 and 201,088 tokens in it.
        """
        tokens = max_num_batched_tokens
        sequences = min(max_num_seqs, tokens)
        sampler = sequences * model.vocabulary_size * self.bytes_per_logit + 2 * tokens * model.hidden_size
        experts = _expert_buffer_bytes(model, 1 if expert_parallel else tensor_parallel_size, tokens)
        return sampler + experts + _RESERVE

    def graph_bytes(self, layers: int) -> int:
        """Bytes of the captured CUDA graphs on one rank that holds this many layers.

        A straight line through the logs of 26 to 80 layers, at the default capture sizes: 0.33 GiB and 18 MiB a
        layer (0.91 GiB measured for 32 layers, 1.06 for 40, 1.79 for 80).
        """
        return int(0.33 * _GIB) + layers * (18 << 20)


def _expert_buffer_bytes(model: Model, ranks: int, tokens: int) -> int:
    """Bytes of vLLM's buffers for fused experts, for every token and each of its experts.

    One holds gate and up and then the experts' outputs, the other the product of gate and up. Two logs show them in
    the peak on top of the sampler (Qwen3-30B-A3B 2.68 GiB, Qwen1.5-MoE-A2.7B 2.47 GiB, both at 8,192 tokens).
    """
    if model.experts is None:
        return 0
    columns = model.experts.intermediate_size // ranks
    rows = tokens * model.experts.per_token
    return 2 * rows * (max(2 * columns, model.hidden_size) + columns)
