"""Models and GPUs from their published configs and data sheets, for the tests of cost and memory."""

from capsim.catalog.gpu import Gpu
from capsim.catalog.model import Experts, Model

GIB = 1 << 30

LLAMA_8B = Model("llama-3.1-8b", "gqa", 32, 4096, 14336, 32, 8, 128, 128256, False, 131072, "config.json")
LLAMA_70B = Model("llama-3.3-70b", "gqa", 80, 8192, 28672, 64, 8, 128, 128256, False, 131072, "config.json")
CODELLAMA_7B = Model("codellama-7b", "gqa", 32, 4096, 11008, 32, 32, 128, 32016, False, 16384, "config.json")
GRANITE_8B = Model("granite-3.3-8b", "gqa", 40, 4096, 12800, 32, 8, 128, 49159, True, 131072, "config.json")
QWEN25_7B = Model(
    "qwen2.5-7b", "gqa", 28, 3584, 18944, 28, 4, 128, 152064, False, 32768, "config.json", attention_bias=True
)
QWEN3_8B = Model(
    "qwen3-8b", "gqa", 36, 4096, 12288, 32, 8, 128, 151936, False, 40960, "config.json", qk_norm=True
)
QWEN3_14B = Model(
    "qwen3-14b", "gqa", 40, 5120, 17408, 40, 8, 128, 151936, False, 40960, "config.json", qk_norm=True
)
KIMI_72B = Model(
    "kimi-dev-72b",
    "gqa",
    80,
    8192,
    29568,
    64,
    8,
    128,
    152064,
    False,
    131072,
    "config.json",
    attention_bias=True,
)
MIXTRAL_8X7B = Model(
    "mixtral-8x7b",
    "gqa",
    32,
    4096,
    14336,
    32,
    8,
    128,
    32000,
    False,
    32768,
    "config.json",
    experts=Experts(8, 2, 14336),
)
QWEN3_30B_A3B = Model(
    "qwen3-30b-a3b",
    "gqa",
    48,
    2048,
    6144,
    32,
    4,
    128,
    151936,
    False,
    40960,
    "config.json",
    qk_norm=True,
    experts=Experts(128, 8, 768),
)
# Its one shared expert of 5,632 columns counts as four of 1,408.
QWEN15_MOE = Model(
    "qwen1.5-moe-a2.7b",
    "gqa",
    24,
    2048,
    5632,
    16,
    16,
    128,
    151936,
    False,
    8192,
    "config.json",
    attention_bias=True,
    experts=Experts(60, 4, 1408, shared=4),
)

H200 = Gpu("h200", int(139.8 * GIB), 4.8e12, {"bfloat16": 989.4e12, "fp8": 1978.9e12}, 450e9, {})
H100 = Gpu("h100", int(79.19 * GIB), 3.35e12, {"bfloat16": 989.4e12, "fp8": 1978.9e12}, 450e9, {})
A100 = Gpu("a100", 80 * GIB, 2.039e12, {"bfloat16": 312e12}, 300e9, {})
