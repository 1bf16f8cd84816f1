"""Names of models and GPUs that measurements and traces are published under: each is an entry, or refused with why.

Copied from the columns for models and GPUs of what others have published and the tests are judged by, without what a
cell adds in brackets: published serving measurements (public.csv), start-up logs (kv-capacity.csv), runs of
inference-sim (blis.csv), operators of Vidur, end-to-end points and experts of NVIDIA aiconfigurator, runs of
LLMServingSim and of vLLM's CPU build; and from the traces of BurstGPT (ChatGPT, GPT-4) and ServeGen (its pools).
"""

from __future__ import annotations

import csv
import re

import pytest

from capsim.catalog import load_gpu, load_model
from capsim.catalog.data import data_names
from capsim.catalog.unmodelled import unmodelled
from capsim.errors import BadInput, Fault
from tests.truth.blis_stages import folder

# The entry of each name; empty: it is refused.
MODELS = {
    "ByteDance-Seed/Seed-OSS-36B-Instruct": "seed-oss-36b",
    "codellama/CodeLlama-34b-Instruct-hf": "codellama-34b",
    "deepseek-ai/DeepSeek-R1": "deepseek-v3",
    "deepseek-ai/DeepSeek-R1-0528": "deepseek-v3",
    "deepseek-ai/DeepSeek-V3.2": "deepseek-v3.2",
    "GLM-4.5-Air": "glm-4.5-air",
    "Llama-3.1-405B-Instruct": "llama-3.1-405b",
    "Llama-3.1-8B-Instruct": "llama-3.1-8b",
    "llama2-70b-chat": "llama-2-70b",
    "meta-llama/Llama-2-70b-hf": "llama-2-70b",
    "meta-llama/Llama-2-7b-hf": "llama-2-7b",
    "meta-llama/Llama-3.1-405B-FP8": "",
    "meta-llama/Llama-3.1-70B": "llama-3.1-70b",
    "meta-llama/Llama-3.1-8B": "llama-3.1-8b",
    "meta-llama/Llama-3.1-8B-Instruct": "llama-3.1-8b",
    "MiniMaxAI/MiniMax-M2.5": "minimax-m2.5",
    "mistralai/Mistral-7B-Instruct-v0.1": "mistral-7b-v0.1",
    "mistralai/Mixtral-8x7B-v0.1": "mixtral-8x7b",
    "Mixtral-8x7B-Instruct": "mixtral-8x7b",
    "moonshotai/Kimi-K2-Instruct": "kimi-k2",
    "moonshotai/Kimi-K2-Thinking": "kimi-k2-thinking",
    "nvidia/Llama-3.1-405B-Instruct-FP8": "",
    "nvidia/Llama-3.1-8B-Instruct-FP8": "",
    "nvidia/Llama-3.3-70B-Instruct-FP8": "",
    "nvidia/Qwen3-235B-A22B-FP8": "",
    "openai/gpt-oss-120b": "gpt-oss-120b",
    "openai/gpt-oss-20b": "gpt-oss-20b",
    "Qwen/Qwen2.5-7B-Instruct": "qwen2.5-7b",
    "Qwen/Qwen3-14B": "qwen3-14b",
    "Qwen/Qwen3-14B-FP8": "",
    "Qwen/Qwen3-235B-A22B-Instruct-2507": "qwen3-235b-a22b-2507",
    "Qwen/Qwen3-235B-A22B-Instruct-2507-FP8": "",
    "Qwen/Qwen3-30B-A3B-Instruct-2507": "qwen3-30b-a3b-2507",
    "Qwen/Qwen3-32B": "qwen3-32b",
    "Qwen/Qwen3-32B-FP8": "",
    "Qwen/Qwen3-8B": "qwen3-8b",
    "Qwen/Qwen3-8B-FP8": "",
    "Qwen/Qwen3-Coder-480B-A35B-Instruct-FP8": "",
    "Qwen/Qwen3.5-9B": "qwen3.5-9b",
    "QwQ-32B": "qwq-32b",
    "tencent/Hy3": "hy3",
    "zai-org/GLM-4.5-Air": "glm-4.5-air",
    "zai-org/GLM-4.5-Air-FP8": "",
    "zai-org/GLM-4.6": "glm-4.6",
    "zai-org/GLM-4.6-FP8": "",
    "zai-org/GLM-5-FP8": "",
    "zai-org/GLM-5.2-FP8": "",
    "meta-llama/Llama-3.1-70B-Instruct": "llama-3.1-70b",
    "mistralai/Mistral-Nemo-Instruct-2407": "mistral-nemo-12b",
    "01-ai/Yi-34B": "yi-34b",
    "codellama/CodeLlama-7b-hf": "codellama-7b",
    "cyankiwi/gemma-4-31B-it-AWQ-4bit": "",
    "cyankiwi/Kimi-Linear-48B-A3B-Instruct-AWQ-4bit": "",
    "deepseek-ai/DeepSeek-V2-Lite-Chat": "deepseek-v2-lite",
    "deepseek-ai/DeepSeek-V3.2-Exp": "deepseek-v3.2",
    "deepseek-ai/DeepSeek-V4-Flash-0731": "",
    "deepseek-ai/DeepSeek-V4-Pro": "",
    "DeepSeek-V4-Flash": "",
    "google/gemma-2-27b-it": "gemma-2-27b",
    "google/gemma-2-2b-it": "gemma-2-2b",
    "google/gemma-2-9b-it": "gemma-2-9b",
    "google/gemma-3-12b-it": "gemma-3-12b",
    "google/gemma-3-4b-it": "gemma-3-4b",
    "google/gemma-7b": "gemma-7b",
    "ibm-granite/granite-3.3-8b-instruct": "granite-3.3-8b",
    "ibm-granite/granite-4.0-micro": "granite-4.0-micro",
    "llama3-70b": "llama-3-70b",
    "MiniMax-M2.7": "minimax-m2.7",
    "mistralai/Mistral-Small-3.1-24B-Instruct-2503": "mistral-small-3.1-24b",
    "moonshotai/Kimi-Dev-72B": "kimi-dev-72b",
    "nvidia/MiniMax-M3-NVFP4": "",
    "Qwen/Qwen1.5-MoE-A2.7B": "qwen1.5-moe-a2.7b",
    "Qwen/Qwen3-30B-A3B": "qwen3-30b-a3b",
    "qwen3.6-35b-a3b-nvfp4": "",
    "RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic": "",
    "RedHatAI/Llama-3.3-70B-Instruct-fp8-dynamic": "",
    "redhatai/Llama-3.3-70B-Instruct-quantized.w8a8": "",
    "RedHatAI/Meta-Llama-3.1-8B-Instruct-quantized.w8a8": "",
    "RedHatAI/Qwen2.5-7B-Instruct-quantized.w8a8": "",
    "unsloth/Qwen3.8-27B-NVFP4": "",
    "meta-llama/Meta-Llama-3-8B": "llama-3-8b",
    "deepseek-ai/DeepSeek-V3": "deepseek-v3",
    "moonshotai/Kimi-K2.5": "kimi-k2.5",
    "Qwen/Qwen3-235B-A22B-FP8": "",
    "Qwen/Qwen3.5-397B-A17B": "qwen3.5-397b-a17b",
    "zhipuai/GLM-5": "glm-5",
    "deepseek-v3": "deepseek-v3",
    "gpt-oss-120b": "gpt-oss-120b",
    "mixtral-8x7b": "mixtral-8x7b",
    "qwen3-235b-a22b": "qwen3-235b-a22b",
    "qwen3-30b-a3b": "qwen3-30b-a3b",
    "ChatGPT": "",
    "deepseek-r1": "deepseek-v3",
    "GPT-4": "",
    "m-large": "",
    "m-mid": "",
    "m-small": "",
    "mm-image": "",
    "tinyllama": "",
}
GPUS = {
    "A100": "a100-80gb-sxm",
    "A100-80GB": "a100-80gb-sxm",
    "A100-SXM-80GB": "a100-80gb-sxm",
    "AMD Instinct MI300X 192GB HBM3": "mi300x",
    "GB200": "gb200",
    "H100": "h100-sxm",
    "H100-80GB": "h100-sxm",
    "H100-SXM-80GB": "h100-sxm",
    "H100-SXM5-80GB": "h100-sxm",
    "H20": "",
    "H20-3e-143GB": "",
    "H200": "h200",
    "H200-SXM-141GB": "h200",
    "H200-SXM5-141GB": "h200",
    "H800-81GB": "",
    "NVIDIA B200-SXM-180GB": "b200",
    "NVIDIA H100-SXM-80GB": "h100-sxm",
    "NVIDIA H200-NVL-141GB": "h200-nvl",
    "NVIDIA H200-SXM-141GB": "h200",
    "NVIDIA L40S": "l40s",
    "RTX 3090": "rtx-3090",
    "RTX 4090 24GB": "rtx-4090",
    "RTX PRO 6000 Blackwell": "rtx-pro-6000",
    "H100-80GB SXM": "h100-sxm",
    "B200": "b200",
    "GH200-96GB": "",
    "H100-80GB-HBM3": "h100-sxm",
    "L40S-48GB": "l40s",
    "RTX 4090": "rtx-4090",
    "RTX 5090": "rtx-5090",
    "a100": "a100-80gb-sxm",
    "h100": "h100-sxm",
    "NVIDIA GeForce RTX 4090": "rtx-4090",
    "NVIDIA H200": "h200",
    "NVIDIA RTX PRO 6000 Blackwell Server Edition": "rtx-pro-6000",
    "RTX PRO 6000": "rtx-pro-6000",
    "RTX4090": "rtx-4090",
    "RTXPRO6000": "rtx-pro-6000",
}

COLUMNS = {
    "public.csv": ("model", "gpu"),
    "kv-capacity.csv": ("model", "gpu"),
    "blis.csv": ("model", "hardware"),
    "vidur-h100-llama3-8b-ops.csv": ("model", "device"),
    "h200-silicon/e2e_agg_measured.csv": ("model_path",),
    "h200-silicon/e2e_disagg_measured.csv": ("model_path",),
    "h200-silicon/moe_us.csv": ("model_shape",),
}
# Cells that tell no name: how large it is, on which path it lay, or that none was printed.
NAMELESS = re.compile(r"^$|class|^hybrid|^/workspace/|^8 GPU node")


def bare(cell: str) -> str:
    """A cell without what it adds in brackets."""
    return re.sub(r" ?\(.*\)(, several)?$", "", cell)


@pytest.mark.parametrize(("name", "entry"), MODELS.items())
def test_a_model_that_is_named_is_an_entry_or_refused_with_a_reason(name: str, entry: str) -> None:
    if entry:
        assert load_model(name).name == entry
    else:
        refused(load_model, name)


@pytest.mark.parametrize(("name", "entry"), GPUS.items())
def test_a_gpu_that_is_named_is_an_entry_or_refused_with_a_reason(name: str, entry: str) -> None:
    if entry:
        assert load_gpu(name).name == entry
    else:
        refused(load_gpu, name)


def refused(load: object, name: str) -> None:
    """Refused by name: with a reason, and without a name that is only spelt like it."""
    assert callable(load)
    with pytest.raises(BadInput) as refusal:
        load(name)
    (fault,) = refusal.value.faults
    assert isinstance(fault, Fault)
    assert re.fullmatch(f"{re.escape(repr(name))} is not in the catalog: .{{20,}}", fault.what)
    assert not fault.suggestion
    assert "one of " not in fault.expected


@pytest.mark.parametrize("file", COLUMNS)
def test_no_name_of_the_files_is_left_out(file: str) -> None:
    path = folder() / file
    if not path.exists():
        pytest.skip(f"{path} is not there; it may not be shipped")
    with path.open(encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines))
    for column, known in zip(COLUMNS[file], (MODELS, GPUS), strict=False):
        named = {bare(row[column]) for row in rows if not NAMELESS.search(bare(row[column]))}
        assert named
        assert named <= set(known)


@pytest.mark.parametrize(("kind", "load"), [("models", load_model), ("gpus", load_gpu)])
def test_what_is_refused_is_no_entry_and_names_one_that_there_is(kind: str, load: object) -> None:
    assert callable(load)
    entries = {name.removesuffix(".yaml") for name in data_names(kind, (".yaml",))}
    for name, (_, instead) in unmodelled(kind).items():
        with pytest.raises(BadInput):
            load(name)
        stated = re.match(r"([\w.-]+), and engine\.dtype: (fp8|int4)", instead)
        assert stated is None or stated[1] in entries
        assert ("engine.dtype" in instead) == (stated is not None)
