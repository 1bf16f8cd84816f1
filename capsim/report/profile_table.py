from __future__ import annotations

from capsim.report import Json
from capsim.report.age import age_text
from capsim.report.table import table

SHORT = {"bfloat16": "bf16", "float16": "fp16"}


def profile_table(profiles: list[Json]) -> list[str]:
    """Lines of a table: what each profile covers, which engine was measured, and when; each under its model."""
    rows = []
    for model in dict.fromkeys(profile["model"] for profile in profiles):
        rows.append([model, "", "", "", "", ""])
        rows += [_row(profile) for profile in profiles if profile["model"] == model]
    return table(["model, path", "weights", "GPUs", "engine", "date", "age"], "llllll", rows)


def _row(profile: Json) -> list[str]:
    return [
        f"  {profile['name']}",
        SHORT.get(profile["dtype"], profile["dtype"]),
        gpus_of(profile),
        f"{profile['engine']} {profile['engine_version']}",
        profile["date"],
        age_text(profile["age_days"]),
    ]


def gpus_of(profile: Json) -> str:
    """Ranks and GPU that a profile holds for, and whether experts are dealt out whole."""
    words = f"{profile['tensor_parallel_size']} x {profile['gpu']}"
    return words + (" EP" if profile["expert_parallel_size"] > 1 else "")
