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


def prefill_seconds(new: int, past: int) -> float:
    return 1.25e-5 + 2.8e-11 * new * (past + new / 2)


def decode_seconds(decodes: int, context: int) -> float:
    return max(1.25e-5, 9.4e-10 * decodes * context)


def mixed(factor: float) -> dict[str, Any]:
    """A mixed grid in which a chunk and decodes take `factor` times as long as apart."""

    def row(new: int, past: int, decodes: int) -> list[float]:
        return [
            factor * (prefill_seconds(new, past) + decode_seconds(decodes, context)) for context in CONTEXT
        ]

    seconds = [[[row(new, past, decodes) for decodes in DECODES] for past in PAST] for new in NEW]
    return {
        "tag": "measured",
        "new": NEW,
        "past": PAST,
        "decodes": DECODES,
        "context": CONTEXT,
        "seconds": seconds,
    }


SKEW = {
    "tag": "fitted",
    "decodes": [1, 64],
    "ratio": [1.0, 1.5, 3.0],
    "alpha": [[0.0, 0.0, 0.0], [0.0, 0.25, 0.5]],
}


def document() -> dict[str, Any]:
    """A valid profile, new at each call so that a test may damage it."""
    shapes = ("layers", "hidden_size", "intermediate_size", "attention_heads", "kv_heads", "head_dim")
    return {
        "schema_version": 1,
        "provenance": {
            "gpu": "h200",
            "gpu_name": "NVIDIA H200",
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
            "importer": "none",
            "files": [],
            "notes": ["every figure is a formula"],
        },
        "operators": [
            {
                "name": "qkv_proj",
                "per": "tokens",
                "times": 32,
                "tag": "measured",
                "counts": TOKENS,
                "seconds": [max(1e-4, 6e-7 * n) for n in TOKENS],
            },
            {
                "name": "norm",
                "per": "tokens",
                "times": 64,
                "tag": "assumed",
                "counts": TOKENS,
                "seconds": [1e-6 + 1e-9 * n for n in TOKENS],
            },
            {
                "name": "lm_head",
                "per": "sequences",
                "times": 1,
                "tag": "measured",
                "counts": SEQUENCES,
                "seconds": [3e-4 + 1e-6 * n for n in SEQUENCES],
            },
        ],
        "attention": {
            "times": 32,
            "prefill": {
                "tag": "fitted",
                "new": NEW,
                "past": PAST,
                "seconds": [[prefill_seconds(new, past) for past in PAST] for new in NEW],
            },
            "decode": {
                "tag": "measured",
                "decodes": DECODES,
                "context": CONTEXT,
                "seconds": [[decode_seconds(decodes, context) for context in CONTEXT] for decodes in DECODES],
            },
        },
        "host": {"tag": "assumed", "seconds": 5e-4},
        "ranges": {
            "tokens": [1, 8192],
            "sequences": [1, 256],
            "new": [1, 8192],
            "past": [0, 8192],
            "decodes": [1, 256],
            "context": [16, 4096],
        },
    }


def write(folder: Path, content: dict[str, Any]) -> Path:
    path = folder / "profile.json"
    path.write_text(json.dumps(content, indent=1))
    return path
