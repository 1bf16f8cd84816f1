"""What engines printed about their memory when they started, and the settings they were started with.

Sources, by the first part of the name:

PLN: start-up logs published with the accuracy results of llm-d-planner (github.com/jgchn/llm-d-planner,
    accuracy/results/v0.19.0), vLLM on H100 80GB; VER: its version sweep. The logs do not print max_num_seqs and
    max_num_batched_tokens; vLLM's defaults for its server on this GPU are 1024 and 8192.
LLMD: github.com/llm-d/llm-d-benchmark, config_explorer/empirical-vllm-memory-results.md; vLLM on H100, releases of
    the winter of 2025 to 2026 (not stated by row), defaults as above.
BLIS: github.com/inference-sim/inference-sim, testdata/trained_physics_iter29.json; vLLM on H100, version not stated.
LSS: github.com/casys-kaist/LLMServingSim, bench/examples/RTX4090/Llama-3.1-8B (MIT).
granite: a log of vLLM 0.11.0 on an L40S in a public GitHub repository.

Left out of the public start-ups that these sources and others hold: weights in float32 or mxfp4 (gpt-oss), which no
scenario can state; engines other than vLLM; and those whose utilization, model or GPU is not told.
"""

from dataclasses import replace
from typing import NamedTuple

from capsim.catalog import Vision, load_model
from capsim.catalog.model import Model
from capsim.memory import MemoryFit, fit_memory
from capsim.memory.question import MemoryQuestion
from tests.cost.hardware import (
    CODELLAMA_7B,
    GIB,
    GRANITE_8B,
    H100,
    KIMI_72B,
    QWEN15_MOE,
)


def gemma(name: str, layers: int, hidden: int, mlp: int, heads: tuple[int, int, int], every: int) -> Model:
    """A Gemma with windowed layers: every so many'th layer sees everything."""
    window, vocabulary = (4096, 256000) if every == 2 else (1024, 262208)
    return Model(
        name,
        "sliding-window",
        layers,
        hidden,
        mlp,
        *heads,
        vocabulary,
        True,
        8192,
        "config.json",
        window=window,
        full_layers=tuple(range(every - 1, layers, every)),
        vision=None if every == 2 else siglip(hidden),
    )


def siglip(hidden: int) -> Vision:
    """Gemma 3's encoder, as that of 27B but for the projection."""
    known = load_model("gemma-3-27b")
    assert known.vision is not None
    narrower = 1152 * (known.hidden_size - hidden)
    replicated = known.vision.replicated_parameters - narrower
    return replace(known.vision, replicated_parameters=replicated, token_elements=hidden)


LLAMA_8B, LLAMA_70B = load_model("llama-3.1-8b"), load_model("llama-3.3-70b")
QWEN25_7B, QWEN3_8B, QWEN3_14B = load_model("qwen2.5-7b"), load_model("qwen3-8b"), load_model("qwen3-14b")
QWEN3_32B, NEMO_12B = load_model("qwen3-32b"), load_model("mistral-nemo-12b")
GEMMA_7B = Model("gemma-7b", "gqa", 28, 3072, 24576, 16, 16, 256, 256000, True, 8192, "config.json")
GEMMA_2_2B = gemma("gemma-2-2b", 26, 2304, 9216, (8, 4, 256), 2)
GEMMA_2_9B = gemma("gemma-2-9b", 42, 3584, 14336, (16, 8, 256), 2)
GEMMA_2_27B = gemma("gemma-2-27b", 46, 4608, 36864, (32, 16, 128), 2)
GEMMA_3_4B = gemma("gemma-3-4b", 34, 2560, 10240, (8, 4, 256), 6)
GEMMA_3_12B = gemma("gemma-3-12b", 48, 3840, 15360, (16, 8, 256), 6)
MISTRAL_24B = Model(
    "mistral-small-3.1-24b",
    "gqa",
    40,
    5120,
    32768,
    32,
    8,
    128,
    131072,
    False,
    131072,
    "config.json",
    # As tests/catalog/test_vision.py counts it to the last weight.
    vision=Vision(434110464, 4847616, 3080, 5120, 3 * 1540**2, 110**2 * (3 * 4096 + 2 * 1024)),
)
YI_34B = Model("yi-34b", "gqa", 60, 7168, 20480, 56, 8, 128, 64000, False, 4096, "config.json")
GRANITE_MICRO = Model(
    "granite-4.0-micro", "gqa", 40, 2560, 8192, 40, 8, 64, 100352, True, 131072, "config.json"
)

ROTARY = "keeps rotary tables of 8 times its positions, 0.56 GiB, which are not counted"
"""Gemma 3 scales its positions linearly by 8, and vLLM keeps cosines and sines of all of them at head_dim."""


class Startup(NamedTuple):
    """One start-up: settings, and GiB as printed of one rank (two digits); 0: not printed."""

    source: str
    model: Model
    ranks: int = 1
    weights: float = 0.0
    activations: float = 0.0
    outside_pytorch: float = 0.0
    graphs: float = 0.0
    kv: float = 0.0
    blocks: int = 0
    tokens: int = 0
    weight_dtype: str = "bfloat16"
    kv_dtype: str = "bfloat16"
    version: str = "0.19.0"
    stages: int = 1
    max_model_len: int = 8192
    memory: float = 79.19
    utilization: float = 0.95
    block_size: int = 16
    max_num_seqs: int = 1024
    max_num_batched_tokens: int = 8192
    reason: str = ""
    images_per_prompt: int = 0

    def fit(self) -> MemoryFit:
        """The memory model's answer to the settings alone."""
        return fit_memory(
            MemoryQuestion(
                self.model,
                replace(H100, memory=int(self.memory * GIB)),
                tensor_parallel_size=self.ranks,
                weight_dtype=self.weight_dtype,
                kv_dtype=self.kv_dtype,
                block_size=self.block_size,
                gpu_memory_utilization=self.utilization,
                max_model_len=self.max_model_len,
                max_num_seqs=self.max_num_seqs,
                max_num_batched_tokens=self.max_num_batched_tokens,
                engine_version=self.version,
                pipeline_parallel_size=self.stages,
                images_per_prompt=self.images_per_prompt,
            )
        )

    def printed(self, fit: MemoryFit) -> dict[str, float]:
        """The memory model's lines in GiB, put together as the engine prints them."""
        sizes = {line.name: abs(line.bytes) / GIB for line in fit.lines}
        together = {
            "weights": ("weights", "vision encoder"),
            "activations": ("activations", "encoder cache", "pixels", "encoder activations"),
            "outside PyTorch": ("outside PyTorch", "communication"),
            "KV cache": ("KV cache",),
        }
        return {name: sum(sizes.get(line, 0.0) for line in lines) for name, lines in together.items()}

    def errors(self, fit: MemoryFit) -> dict[str, float]:
        """Signed relative errors of the weights and of the KV cache: of its blocks, else its tokens, else its GiB."""
        sizes = self.printed(fit)
        found = {}
        if self.weights:
            found["weights"] = sizes["weights"] / self.weights - 1
        if self.blocks:
            found["KV cache"] = fit.num_gpu_blocks / self.blocks - 1
        elif self.tokens:
            found["KV cache"] = fit.num_gpu_blocks * self.block_size / self.tokens - 1
        else:
            found["KV cache"] = sizes["KV cache"] / self.kv - 1
        return found


PLAIN = [
    Startup("PLN-01", CODELLAMA_7B, 1, 12.56, 0.77, 0.25, 0.89, 61.66, 7891),
    Startup("PLN-03", LLAMA_70B, 2, 33.88, 1.96, 2.1, 1.79, 37.28, 15269, weight_dtype="fp8"),
    Startup("PLN-04", LLAMA_70B, 4, 16.96, 1.97, 2.21, 1.66, 54.09, 44312, weight_dtype="fp8"),
    Startup("PLN-19", GEMMA_7B, 1, 15.91, 3.63, 0.25, 0.94, 55.44, 8110),
    Startup("PLN-22", GRANITE_8B, 1, 15.25, 0.85, 0.46, 0.98, 58.66, 24027),
    Startup("PLN-24", LLAMA_8B, 1, 14.99, 1.89, 0.25, 0.91, 58.11, 59502, kv_dtype="fp8"),
    Startup("PLN-25", LLAMA_8B, 1, 14.99, 1.89, 0.25, 0.91, 58.11, 29750),
    Startup("PLN-26", LLAMA_8B, 1, 8.49, 1.89, 0.25, 0.87, 64.61, 33078, weight_dtype="fp8"),
    Startup(
        "PLN-27",
        LLAMA_8B,
        1,
        14.99,
        1.89,
        0.25,
        0.91,
        58.11,
        29751,
        weight_dtype="float16",
        kv_dtype="float16",
    ),
    Startup("PLN-29", LLAMA_8B, 1, 14.99, 1.89, 0.25, 0.91, 58.11, 29751, max_model_len=2048),
    Startup("PLN-30", LLAMA_8B, 1, 14.99, 1.89, 0.25, 0.91, 58.11, 29751, max_model_len=4096),
    Startup("PLN-31", LLAMA_8B, 1, 14.99, 1.89, 0.25, 0.91, 58.11, 29751),
    Startup("PLN-35", LLAMA_8B, 2, 7.51, 1.89, 2.07, 0.76, 63.76, 65293),
    Startup("PLN-36", LLAMA_8B, 4, 3.77, 1.89, 2.13, 0.67, 67.44, 138112),
    Startup("PLN-37", LLAMA_8B, 1, 14.99, 1.89, 0.25, 0.91, 58.11, 29751, max_model_len=16384),
    Startup("PLN-38", LLAMA_8B, 1, 14.99, 1.89, 0.25, 0.91, 58.11, 29751, max_model_len=32768),
    Startup("PLN-44", MISTRAL_24B, 1, 44.76, 2.03, 0.25, 1.06, 28.19, 11547, images_per_prompt=1),
    Startup("PLN-46", KIMI_72B, 2, 67.82, 2.29, 2.09, 1.61, 3.02, 1236),
    Startup("PLN-48", KIMI_72B, 4, 34.01, 2.29, 2.21, 1.54, 36.72, 30081),
    Startup("PLN-55", QWEN25_7B, 1, 14.25, 2.21, 0.24, 0.86, 58.53, 137000, kv_dtype="fp8"),
    Startup("PLN-57", QWEN25_7B, 1, 14.25, 2.21, 0.24, 0.87, 58.53, 68500),
    Startup("PLN-58", QWEN25_7B, 1, 14.25, 2.21, 0.24, 0.87, 58.53, 68498, max_model_len=16384),
    Startup("PLN-59", QWEN25_7B, 1, 14.25, 2.21, 0.24, 0.87, 58.53, 68500, max_model_len=32768),
    Startup("PLN-60", QWEN25_7B, 1, 14.25, 2.21, 0.24, 0.87, 58.53, 68500, max_model_len=2048),
    Startup("PLN-61", QWEN25_7B, 1, 14.25, 2.21, 0.24, 0.87, 58.53, 68500, max_model_len=4096),
    Startup("PLN-62", QWEN25_7B, 1, 14.25, 2.21, 0.24, 0.87, 58.53, 68500),
    Startup("PLN-63", QWEN25_7B, 2, 7.12, 2.21, 2.06, 0.71, 63.84, 149412),
    Startup("PLN-64", QWEN25_7B, 4, 3.55, 2.21, 2.13, 0.64, 67.34, 315205),
    Startup("PLN-67", QWEN3_8B, 1, 15.27, 2.21, 0.25, 0.96, 57.5, 26168),
    # w8a8: 8-bit integers take as many bytes as fp8.
    Startup("PLN-68", LLAMA_70B, 2, 33.88, 1.96, 2.11, 1.85, 37.28, 15269, weight_dtype="fp8"),
    Startup("PLN-72", LLAMA_8B, 1, 8.49, 1.89, 0.25, 0.94, 64.6, 33075, weight_dtype="fp8"),
    Startup("PLN-73", QWEN25_7B, 1, 8.14, 2.21, 0.25, 0.88, 64.64, 75642, weight_dtype="fp8"),
    Startup("VER-0.15", QWEN3_14B, 1, 27.52, 5.64, 0.13, 0, 41.94, 17178, version="0.15.0"),
    Startup("VER-0.16", QWEN3_14B, 1, 27.52, 5.64, 0.13, 0, 41.94, 17178, version="0.16.0"),
    Startup("VER-0.17", QWEN3_14B, 1, 27.52, 2.23, 0.13, 0, 45.34, 18572, version="0.17.0"),
    Startup("VER-0.18", QWEN3_14B, 1, 27.52, 2.23, 0.25, 0, 45.23, 18525, version="0.18.0"),
]
"""Dense models with grouped-query attention, every line printed."""

EXPERTS = [
    Startup("PLN-54", QWEN15_MOE, 1, 26.67, 2.47, 0.25, 1.10, 45.83, 15644),
    Startup("PLN-66", load_model("qwen3-30b-a3b"), 1, 56.88, 2.68, 0.27, 1.41, 15.41, 10518),
    Startup("PLN-02", load_model("deepseek-v2-lite"), 1, 29.43, 1.93, 0.26, 1.57, 43.61, 94097),
]
WINDOWED = [
    Startup("PLN-07", GEMMA_2_27B, 1, 50.72, 3.66, 0.26, 1.23, 20.59, 7335),
    Startup("PLN-09", GEMMA_2_2B, 1, 4.9, 3.62, 0.24, 0.71, 66.47, 83770),
    Startup("PLN-11", GEMMA_2_9B, 1, 17.22, 3.65, 0.25, 1.09, 54.12, 21110),
    Startup(
        "PLN-13", GEMMA_3_12B, 1, 23.31, 3.94, 0.25, 0.94, 47.72, 48867, reason=ROTARY, images_per_prompt=1
    ),
    Startup(
        "PLN-17", GEMMA_3_4B, 1, 8.58, 3.89, 0.25, 0.67, 62.51, 204817, reason=ROTARY, images_per_prompt=1
    ),
]
PIPELINES = [
    Startup("PLN-33", LLAMA_8B, 1, 0, 1.10, 0.07, 0.65, 66.54, 67207, stages=2),
    Startup("PLN-34", LLAMA_8B, 1, 0, 1.05, 0.07, 0.51, 69.80, 141079, stages=4),
]
"""The log prints the weights of a middle stage and the rest of another."""


def others(source: str, model: Model, ranks: int, version: str, **settings: float | str) -> Startup:
    return Startup(source, model, ranks, version=version, **settings)  # type: ignore[arg-type]


def llmd(
    number: int, model: Model, ranks: int, sizes: tuple[float, float, float, float], dtype: str = "bfloat16"
) -> Startup:
    """Weights, activations, memory outside PyTorch and KV cache, which these start-ups print."""
    names = ("weights", "activations", "outside_pytorch", "kv")
    printed = dict(zip(names, sizes, strict=True))
    return others(f"LLMD-{number}", model, ranks, "0.13.0", weight_dtype=dtype, **printed, **LLMD)


LLMD = {"memory": 79.18, "utilization": 0.9, "max_model_len": 16000, "block_size": 128}
BLIS = {"utilization": 0.9, "max_num_seqs": 128, "max_model_len": 4096}
SORTED = [
    llmd(1, LLAMA_70B, 2, (33.88, 4.84, 0.55, 32.0), "fp8"),
    llmd(2, QWEN3_32B, 1, (61.03, 5.64, 0.14, 4.45)),
    llmd(3, QWEN3_32B, 2, (30.59, 5.64, 0.54, 34.49)),
]
"""Of a version whose profiling run sorts the logits, with the activations printed."""
OTHERS = [
    *SORTED,
    others("BLIS-1", load_model("llama-2-7b"), 1, "0.15.0", blocks=7463, max_num_batched_tokens=2048, **BLIS),
    others("BLIS-2", NEMO_12B, 2, "0.15.0", blocks=48009, max_num_batched_tokens=1024, **BLIS),
    others("BLIS-3", NEMO_12B, 1, "0.15.0", blocks=19251, max_num_batched_tokens=2048, **BLIS),
    others("BLIS-4", YI_34B, 2, "0.15.0", blocks=20793, max_num_batched_tokens=2048, **BLIS),
    others(
        "LSS",
        LLAMA_8B,
        1,
        "0.19.0",
        blocks=2588,
        memory=23.516,
        utilization=0.9,
        max_model_len=32768,
        max_num_seqs=256,
        max_num_batched_tokens=2048,
    ),
    others(
        "granite",
        GRANITE_MICRO,
        1,
        "0.11.0",
        weights=3.4244,
        kv=35.34,
        tokens=463136,
        weight_dtype="fp8",
        memory=44.39,
        utilization=0.9,
        max_model_len=131072,
        max_num_seqs=256,
        max_num_batched_tokens=2048,
    ),
]

STARTUPS = [*PLAIN, *EXPERTS, *WINDOWED, *PIPELINES, *OTHERS]
