"""Start vLLM with random weights, for its log, and print what its configuration says; its arguments are JSON.

All that depends on vLLM's version is here. Written against 0.32.0.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")

import vllm
from vllm.platforms import current_platform

from calibrate.memory.start import MARK

KV_BYTES = 2**29
"""Of the KV cache on a CPU, where vLLM would take 92 % of the machine's memory."""


def main(arguments: dict[str, Any]) -> None:
    """Start, say what was started, and stop."""
    device = "cpu" if current_platform.is_cpu() else "gpu"
    standard = {"kv_cache_memory_bytes": KV_BYTES, "enforce_eager": True} if device == "cpu" else {}
    engine = vllm.LLM(**standard | arguments, load_format="dummy", skip_tokenizer_init=True)
    config = engine.llm_engine.vllm_config
    cache, scheduler, parallel = config.cache_config, config.scheduler_config, config.parallel_config
    told = {
        "device": device,
        "gpu_name": "" if device == "cpu" else str(current_platform.get_device_name()),
        "total": None if device == "cpu" else int(current_platform.get_device_total_memory()),
        "kv": cache.kv_cache_memory_bytes,
        "num_gpu_blocks": cache.num_gpu_blocks,
        "settings": {
            "version": vllm.__version__,
            "tensor_parallel_size": parallel.tensor_parallel_size,
            "enforce_eager": bool(config.model_config.enforce_eager),
            "kv_cache_dtype": str(cache.cache_dtype),
            "max_model_len": config.model_config.max_model_len,
            "max_num_seqs": scheduler.max_num_seqs,
            "max_num_batched_tokens": scheduler.max_num_batched_tokens,
            "block_size": cache.block_size,
            "gpu_memory_utilization": cache.gpu_memory_utilization,
        },
    }
    print(MARK + json.dumps(told), flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
