"""What decides a replica's memory, and the table from the GPU's memory down to the KV cache."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from capsim.catalog.gpu import Gpu
from capsim.catalog.model import Model
from capsim.catalog.stage import Stage, pipeline_stages
from capsim.errors import BadInput
from capsim.memory.additions import NOTHING_BESIDE, Additions
from capsim.memory.images import Images
from capsim.memory.kv import KvLayout
from capsim.memory.weights import weight_bytes
from capsim.memory.workspace import Workspace


@dataclass(frozen=True)
class MemoryLine:
    """One line of the memory table of a rank.

    Attributes:
        name: what it is.
        bytes: its size; negative where it is taken away. The lines before the KV cache add up to it.
        tag: ``data sheet``, ``stated``, ``derived``, ``fitted``, ``assumed``, or ``measured`` by an engine.
        note: where the figure comes from, or a warning.
    """

    name: str
    bytes: int
    tag: str
    note: str


@dataclass(frozen=True)
class MemoryQuestion:
    """Everything that decides a replica's memory; sizes are of one rank, names vLLM's where it has them.

    Attributes:
        model: dense or with experts, of any attention kind.
        gpu: its `memory` is what the driver reports.
        tensor_parallel_size: ranks that share the model.
        weight_dtype: ``bfloat16``, ``float16``, ``fp8``, or weight-only ``int8`` or ``int4``.
        kv_dtype: ``bfloat16``, ``float16`` or ``fp8``.
        block_size: tokens in a KV block.
        gpu_memory_utilization: share of the GPU's memory that the engine may use.
        max_model_len: longest sequence, tokens.
        max_num_seqs: most sequences at once; sizes the sampler's workspace.
        max_num_batched_tokens: most tokens in a step; sizes the activations.
        engine_version: of vLLM, e.g. ``0.19.0``.
        num_gpu_blocks: a stated number of blocks (an engine's own print-out), which wins over the arithmetic.
        expert_parallel: experts are dealt out whole to the ranks.
        pipeline_parallel_size: stages that the layers are cut into; the replica has this many times the ranks.
        enforce_eager: no CUDA graphs are captured.
        additions: a draft model, LoRA slots and a reserve.
        images_per_prompt: most images of one prompt (``limit_mm_per_prompt``); 0: text only, without the encoder.
        data_parallel_size: groups of ranks, each with all of the attention and with sequences and a pool of its own,
            that share the experts (data-parallel attention); what is said of a pool holds for each. The replica has
            this many times the ranks.
    """

    model: Model
    gpu: Gpu
    tensor_parallel_size: int
    weight_dtype: str
    kv_dtype: str
    block_size: int
    gpu_memory_utilization: float
    max_model_len: int
    max_num_seqs: int
    max_num_batched_tokens: int
    engine_version: str
    num_gpu_blocks: int | None = None
    expert_parallel: bool = False
    pipeline_parallel_size: int = 1
    enforce_eager: bool = False
    additions: Additions = NOTHING_BESIDE
    images_per_prompt: int = 0
    data_parallel_size: int = 1

    @property
    def ranks(self) -> int:
        """GPUs of the replica."""
        return self.tensor_parallel_size * self.pipeline_parallel_size * self.data_parallel_size

    @property
    def splits(self) -> bool:
        """Whether the ranks have equal shares of the model, and of each expert unless experts are dealt out whole."""
        sharers = self.tensor_parallel_size * self.data_parallel_size
        shared = self.expert_parallel or self.model.experts_split_over(sharers)
        return shared and self.model.splits_over(self.tensor_parallel_size)

    @cached_property
    def stage(self) -> Stage:
        """The pipeline's stage that has room for the fewest blocks: all stages hold the same ones, so it decides."""
        return min(pipeline_stages(self.model, self.pipeline_parallel_size), key=self._blocks)

    @property
    def layout(self) -> KvLayout:
        """The KV cache of one rank of the deciding stage."""
        return self._layout(self.stage)

    @property
    def needed_bytes(self) -> int:
        """KV bytes below which the engine refuses to start: what it sets aside for one sequence of `max_model_len`."""
        return self.needed_blocks(self.max_model_len) * self.layout.bytes_per_block

    def needed_blocks(self, tokens: int) -> int:
        """Blocks that the engine sets aside for one sequence of this many tokens."""
        return self.layout.peak_blocks(tokens, self.max_num_batched_tokens)

    @property
    def kv_bytes(self) -> int:
        """Bytes that the lines above leave for the KV cache; negative where they exceed the budget."""
        return sum(line.bytes for line in self.deductions())

    @property
    def slack_bytes(self) -> int:
        """Bytes that `gpu_memory_utilization` leaves outside the budget."""
        return self.gpu.memory - int(self.gpu.memory * self.gpu_memory_utilization)

    def deductions(self) -> tuple[MemoryLine, ...]:
        """The memory table of the deciding stage, down to what is left for the KV cache: the sum of these lines."""
        return self._deductions(self.stage)

    @property
    def images(self) -> Images | None:
        """The images of a step; None where the engine takes text only, which then loads no encoder.

        Raises:
            BadInput: images for a model whose encoder is not known.
        """
        if not self.images_per_prompt:
            return None
        if self.model.vision is None:
            raise BadInput(
                f"{self.images_per_prompt} images a prompt: the catalog knows no vision encoder of {self.model.name}, "
                "expected 0"
            )
        return Images.of(
            self.model.vision,
            per_prompt=self.images_per_prompt,
            max_model_len=self.max_model_len,
            max_num_seqs=self.max_num_seqs,
            max_num_batched_tokens=self.max_num_batched_tokens,
        )

    @property
    def communicates(self) -> bool:
        """Whether ranks share a layer or experts, and so hold buffers to speak to each other."""
        return self.tensor_parallel_size > 1 or (
            self.data_parallel_size > 1 and self.model.experts is not None
        )

    def holds_graphs(self) -> bool:
        """Whether CUDA graphs have room: in the budget, or in what the utilization leaves outside it."""
        workspace = Workspace.of(self.engine_version)
        if self.enforce_eager or workspace.graphs_inside:
            return True
        return workspace.graph_bytes(self.stage.layers) <= self.slack_bytes

    def _layout(self, stage: Stage) -> KvLayout:
        ranks = self.tensor_parallel_size
        layout = KvLayout.of(self.model, ranks, self.kv_dtype, self.block_size, stage=stage)
        return self.additions.layout(layout, ranks, self.kv_dtype, self.block_size, stage)

    def _blocks(self, stage: Stage) -> int:
        return sum(line.bytes for line in self._deductions(stage)) // self._layout(stage).bytes_per_block

    def _deductions(self, stage: Stage) -> tuple[MemoryLine, ...]:
        weights = weight_bytes(
            self.model,
            self.tensor_parallel_size,
            self.weight_dtype,
            expert_parallel=self.expert_parallel,
            data_parallel_size=self.data_parallel_size,
            stage=stage,
        )
        workspace = Workspace.of(self.engine_version)
        activation = workspace.activation_bytes(
            self.model,
            self.tensor_parallel_size,
            self.max_num_seqs if stage.projects else 0,
            self.max_num_batched_tokens,
            expert_parallel=self.expert_parallel,
        )
        return (
            MemoryLine(
                "GPU memory",
                self.gpu.memory,
                "data sheet",
                self.gpu.sources.get("memory", "as the driver reports"),
            ),
            MemoryLine(
                "outside the budget",
                -self.slack_bytes,
                "stated",
                f"gpu_memory_utilization {self.gpu_memory_utilization:g}",
            ),
            MemoryLine("weights", -weights, "derived", f"{self.weight_dtype}, {self._parallelism(stage)}"),
            MemoryLine(
                "activations",
                -activation,
                "fitted",
                f"peak at {self.max_num_batched_tokens} tokens and {self.max_num_seqs} sequences",
            ),
            MemoryLine(
                "outside PyTorch",
                -workspace.non_torch,
                "fitted",
                f"CUDA context and libraries; vLLM {self.engine_version}",
            ),
            *self._communication_lines(workspace),
            *self._graph_lines(workspace, stage),
            *(
                MemoryLine(name, -size, tag, note)
                for name, size, tag, note in (
                    *self._image_sizes(stage, activation),
                    *self.additions.sizes(self.model, self.tensor_parallel_size, stage),
                )
            ),
        )

    def _image_sizes(self, stage: Stage, activation: int) -> Iterator[tuple[str, int, str, str]]:
        """What images take of a rank; in a pipeline the first stage has them."""
        if self.images is not None and stage.embeds:
            yield from self.images.sizes(self.tensor_parallel_size, activation)

    def _parallelism(self, stage: Stage) -> str:
        """How the weights are shared, and the stage of a pipeline that decides."""
        words = f"TP {self.tensor_parallel_size}" + (" with whole experts" if self.expert_parallel else "")
        if self.data_parallel_size > 1:
            words = f"DP {self.data_parallel_size}, {words}"
        if self.pipeline_parallel_size == 1:
            return words
        place = "first" if stage.embeds else "last" if stage.projects else "middle"
        return f"{words}, PP {self.pipeline_parallel_size}: {place} stage, {stage.layers} layers, decides"

    def _communication_lines(self, workspace: Workspace) -> list[MemoryLine]:
        """What ranks that share a layer or experts hold to speak to each other; a rank alone holds nothing."""
        if not self.communicates:
            return []
        note = f"NCCL and all-reduce buffers; vLLM {self.engine_version}"
        return [MemoryLine("communication", -workspace.communication, "fitted", note)]

    def _graph_lines(self, workspace: Workspace, stage: Stage) -> list[MemoryLine]:
        """CUDA graphs: taken from the budget, or from what the utilization leaves over, which must then hold them."""
        if self.enforce_eager:
            return [MemoryLine("CUDA graphs", 0, "stated", "none: enforce_eager")]
        graphs = workspace.graph_bytes(stage.layers)
        if workspace.graphs_inside:
            return [MemoryLine("CUDA graphs", -graphs, "fitted", "at the default capture sizes")]
        note = f"{gib(graphs)} outside the budget in vLLM {self.engine_version}"
        lines = [MemoryLine("CUDA graphs", 0, "fitted", note)]
        if graphs > self.slack_bytes:
            warning = f"warning: gpu_memory_utilization leaves {gib(self.slack_bytes)}, the graphs need {gib(graphs)}"
            lines.append(MemoryLine("CUDA graphs do not fit", 0, "derived", warning))
        return lines


def gib(size: int) -> str:
    """A size in print."""
    return f"{size / (1 << 30):.2f} GiB"
