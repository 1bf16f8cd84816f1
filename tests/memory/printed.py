"""What engines printed about their KV cache when they started.

Sources, by the first part of the name:

PLN, VER: start-up logs published with the accuracy results of llm-d-planner (github.com/jgchn/llm-d-planner,
    accuracy/results/v0.19.0 and version-sweep); vLLM on H100 80GB, block size 16, max_num_batched_tokens 8192 (the
    default of its server on this GPU, which the logs do not print).
vLLM-n, hf-mem-n, TRT-LLM-n, SGLang-n, club-3090-n: the issue or pull request n of vllm-project/vllm,
    alvarobartt/hf-mem, NVIDIA/TensorRT-LLM, sgl-project/sglang and noonghunna/club-3090 on GitHub.
    Start-ups of which no GiB, no tokens or no architecture is published are left out, and vLLM-43308 (gemma-4-31b),
    whose figures are rounded to one digit.
granite, qwen3-next, hybrid: logs in public GitHub repositories (vLLM 0.11.0 on L40S, 0.10.2 on two H200, 0.17.0).
"""

from typing import NamedTuple

from capsim.catalog import load_model
from capsim.catalog.attention import LatentAttention, LinearAttention
from capsim.catalog.model import Model
from tests.cost.hardware import CODELLAMA_7B, GRANITE_8B, KIMI_72B, QWEN15_MOE


def plain(name: str, layers: int, heads: int, kv_heads: int, head_dim: int, hidden: int = 4096) -> Model:
    """A model of which only the KV cache matters."""
    return Model(
        name, "gqa", layers, hidden, 16384, heads, kv_heads, head_dim, 32768, False, 8192, "config.json"
    )


def windowed(
    name: str, layers: int, heads: int, kv_heads: int, head_dim: int, window: int, every: int
) -> Model:
    full = tuple(range(every - 1, layers, every))
    return Model(
        name,
        "sliding-window",
        layers,
        4096,
        16384,
        heads,
        kv_heads,
        head_dim,
        262208,
        True,
        8192,
        "config.json",
        window=window,
        full_layers=full,
    )


LLAMA_8B, LLAMA_70B = load_model("llama-3.1-8b"), load_model("llama-3.3-70b")
QWEN25_7B, QWEN3_8B, QWEN3_14B = load_model("qwen2.5-7b"), load_model("qwen3-8b"), load_model("qwen3-14b")
GPT_OSS_20B, GPT_OSS_120B = load_model("gpt-oss-20b"), load_model("gpt-oss-120b")
GEMMA_7B = plain("gemma-7b", 28, 16, 16, 256)
MISTRAL_24B = plain("mistral-small-3.1-24b", 40, 32, 8, 128)
GRANITE_MICRO = plain("granite-4.0-micro", 40, 40, 8, 64)
# An EAGLE draft adds a layer of its own to the 32.
LLAMA_8B_EAGLE = plain("llama-3.1-8b with an EAGLE draft", 33, 32, 8, 128)
GEMMA_2_2B = windowed("gemma-2-2b", 26, 8, 4, 256, 4096, 2)
GEMMA_2_9B = windowed("gemma-2-9b", 42, 16, 8, 256, 4096, 2)
GEMMA_2_27B = windowed("gemma-2-27b", 46, 32, 16, 128, 4096, 2)
GEMMA_3_4B = windowed("gemma-3-4b", 34, 8, 4, 256, 1024, 6)
GEMMA_3_12B = windowed("gemma-3-12b", 48, 16, 8, 256, 1024, 6)
DEEPSEEK_V32 = Model(
    "deepseek-v3.2",
    "mla",
    61,
    7168,
    18432,
    128,
    1,
    128,
    129280,
    False,
    163840,
    "config.json",
    latent=LatentAttention(512, 64, 128, 128, 1536, index_head_dim=128),
)
# Its states are kept at 32 bits (mamba_ssm_dtype of the config).
QWEN36_35B = Model(
    "qwen3.6-35b-a3b",
    "linear",
    40,
    2048,
    512,
    16,
    2,
    256,
    248320,
    False,
    262144,
    "config.json",
    linear=LinearAttention(16, 32, 128, 128, 4, state_bytes=4),
    full_layers=tuple(range(3, 40, 4)),
)


class Printed(NamedTuple):
    """One start-up: GiB as printed (two digits), and what the engine made of them; 0: not printed."""

    source: str
    model: Model
    gib: float
    blocks: int = 0
    tokens: int = 0
    concurrency: float = 0
    kv_dtype: str = "bfloat16"
    ranks: int = 1
    stages: int = 1
    max_model_len: int = 8192


PLAIN = [
    Printed("PLN-01", CODELLAMA_7B, 61.66, 7891, 126256, 15.41),
    Printed("PLN-03", LLAMA_70B, 37.28, 15269, 244304, 29.82, ranks=2),
    Printed("PLN-04", LLAMA_70B, 54.09, 44312, 708992, 86.55, ranks=4),
    Printed("PLN-19", GEMMA_7B, 55.44, 8110, 129760, 15.84),
    Printed("PLN-22", GRANITE_8B, 58.66, 24027, 384432, 46.93),
    Printed("PLN-24", LLAMA_8B, 58.11, 59502, 952032, 116.21, "fp8"),
    Printed("PLN-25", LLAMA_8B, 58.11, 29750, 476000, 58.11),
    Printed("PLN-26", LLAMA_8B, 64.61, 33078, 529248, 64.61),
    Printed("PLN-27", LLAMA_8B, 58.11, 29751, 476016, 58.11, "float16"),
    Printed("PLN-28", LLAMA_8B, 42.8, 10956, 175296, 21.4, "float32"),
    Printed("PLN-29", LLAMA_8B, 58.11, 29751, 476016, 232.43, max_model_len=2048),
    Printed("PLN-30", LLAMA_8B, 58.11, 29751, 476016, 116.21, max_model_len=4096),
    Printed("PLN-31", LLAMA_8B, 58.11, 29751, 476016, 58.11),
    Printed("PLN-35", LLAMA_8B, 63.76, 65293, 1044688, 127.53, ranks=2),
    Printed("PLN-36", LLAMA_8B, 67.44, 138112, 2209792, 269.75, ranks=4),
    Printed("PLN-37", LLAMA_8B, 58.11, 29751, 476016, 29.05, max_model_len=16384),
    Printed("PLN-38", LLAMA_8B, 58.11, 29751, 476016, 14.53, max_model_len=32768),
    Printed("PLN-44", MISTRAL_24B, 28.19, 11547, 184752, 22.55),
    Printed("PLN-46", KIMI_72B, 3.02, 1236, 19776, 2.41, ranks=2),
    Printed("PLN-48", KIMI_72B, 36.72, 30081, 481296, 58.75, ranks=4),
    Printed("PLN-54", QWEN15_MOE, 45.83, 15644, 250304, 30.55),
    Printed("PLN-55", QWEN25_7B, 58.53, 137000, 2192000, 267.58, "fp8"),
    Printed("PLN-57", QWEN25_7B, 58.53, 68500, 1096000, 133.79),
    Printed("PLN-58", QWEN25_7B, 58.53, 68498, 1095968, 66.89, max_model_len=16384),
    Printed("PLN-59", QWEN25_7B, 58.53, 68500, 1096000, 33.45, max_model_len=32768),
    Printed("PLN-60", QWEN25_7B, 58.53, 68500, 1096000, 535.16, max_model_len=2048),
    Printed("PLN-61", QWEN25_7B, 58.53, 68500, 1096000, 267.58, max_model_len=4096),
    Printed("PLN-62", QWEN25_7B, 58.53, 68500, 1096000, 133.79),
    Printed("PLN-63", QWEN25_7B, 63.84, 149412, 2390592, 291.82, ranks=2),
    Printed("PLN-64", QWEN25_7B, 67.34, 315205, 5043280, 615.63, ranks=4),
    Printed("PLN-66", load_model("qwen3-30b-a3b"), 15.41, 10518, 168288, 20.54),
    Printed("PLN-67", QWEN3_8B, 57.5, 26168, 418688, 51.11),
    Printed("PLN-68", LLAMA_70B, 37.28, 15269, 244304, 29.82, ranks=2),
    Printed("PLN-72", LLAMA_8B, 64.6, 33075, 529200, 64.6, "float16"),
    Printed("PLN-73", QWEN25_7B, 64.64, 75642, 1210272, 147.74),
    Printed("VER-0.15", QWEN3_14B, 41.94, 17178, 274848, 33.55),
    Printed("VER-0.16", QWEN3_14B, 41.94, 17178, 274848, 33.55),
    Printed("VER-0.17", QWEN3_14B, 45.34, 18572, 297152, 36.27),
    Printed("VER-0.18", QWEN3_14B, 45.23, 18525, 296400, 36.18),
    Printed("vLLM-19996", LLAMA_8B_EAGLE, 51.63, 0, 410128, 3.13, max_model_len=131072),
    Printed("granite", GRANITE_MICRO, 35.34, 0, 463136, 3.53, max_model_len=131072),
]
# The log prints the GiB of one stage, the blocks are those of the fullest: the last, with logits and sampler.
PIPELINES = [
    Printed("PLN-33", LLAMA_8B, 66.54, 67207, 1075312, 131.26, stages=2),
    Printed("PLN-34", LLAMA_8B, 69.8, 141079, 2257264, 275.54, stages=4),
]
LATENT = [
    Printed("PLN-02", load_model("deepseek-v2-lite"), 43.61, 94097, 1505552, 183.78),
]
WINDOWED = [
    Printed("PLN-07", GEMMA_2_27B, 20.59, 7335, 58672, 7.16),
    Printed("PLN-09", GEMMA_2_2B, 66.47, 83770, 670160, 81.73),
    Printed("PLN-11", GEMMA_2_9B, 54.12, 21110, 168880, 20.6),
    Printed("PLN-13", GEMMA_3_12B, 47.72, 48867, 130304, 15.88),
    Printed("PLN-17", GEMMA_3_4B, 62.51, 204817, 468144, 57.05),
    Printed("PLN-51", GPT_OSS_20B, 58.47, 0, 1277184, 155.75),
    Printed("PLN-52", GPT_OSS_20B, 63.28, 0, 2764768, 337.17, ranks=2),
    Printed("PLN-53", GPT_OSS_20B, 59.32, 323972, 2591776, 316.07, ranks=2),
]
