"""A profile document for tests: a plausible GPU, tabulated from simple formulas."""

import json
from pathlib import Path
from typing import Any

from tests.cost.hardware import LLAMA_8B

TOKENS = [1, 16, 256, 2048, 8192]
SEQUENCES = [1, 16, 64, 256]
NEW = [1, 256, 2048, 8192]
PAST = [0, 1024, 8192]
DECODES = [1, 8, 64, 256]
CONTEXT = [16, 512, 4096, 16384]


def document() -> dict[str, Any]:
    """A valid profile, new at each call so that a test may damage it."""
    shapes = ("layers", "hidden_size", "intermediate_size", "attention_heads", "kv_heads", "head_dim")
    return {
        "schema_version": 1,
        "provenance": {
            "gpu": "h200",
            "engine": "vllm",
            "engine_version": "0.19.0",
            "model": {
                "name": "llama-3.1-8b",
                "vocabulary_size": 128256,
                **{shape: getattr(LLAMA_8B, shape) for shape in shapes},
            },
            "dtype": "bfloat16",
            "kv_dtype": "bfloat16",
            "tensor_parallel_size": 1,
            "date": "2026-08-21",
            "measured_by": "a test",
            "licence": "Apache-2.0",
            "attribution": "made up for tests",
        },
        "ranges": {
            "tokens": [1, 8192],
            "sequences": [1, 256],
            "new": [1, 8192],
            "past": [0, 8192],
            "decodes": [1, 256],
            "context": [16, 4096],
        },
        "tables": {
            "tokens": {
                "tag": "measured",
                "tokens": TOKENS,
                "seconds": [max(4e-3, 22e-6 * n) for n in TOKENS],
            },
            "sequences": {
                "tag": "measured",
                "sequences": SEQUENCES,
                "seconds": [3e-4 + 1e-6 * n for n in SEQUENCES],
            },
            "prefill_attention": {
                "tag": "fitted",
                "new": NEW,
                "past": PAST,
                "seconds": [[4e-4 + 9e-10 * n * (past + n / 2) for past in PAST] for n in NEW],
            },
            "decode_attention": {
                "tag": "measured",
                "decodes": DECODES,
                "context": CONTEXT,
                "seconds": [[max(4e-4, 3e-8 * n * context) for context in CONTEXT] for n in DECODES],
            },
            "host": {"tag": "assumed", "seconds": 5e-4},
        },
    }


def write(folder: Path, content: dict[str, Any]) -> Path:
    path = folder / "profile.json"
    path.write_text(json.dumps(content, indent=1))
    return path
