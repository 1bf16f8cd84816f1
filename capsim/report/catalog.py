"""What scenarios can name, as text."""

from __future__ import annotations

from collections.abc import Iterator

from capsim.report import Json
from capsim.report.number import number
from capsim.report.profile_table import profile_table
from capsim.report.table import paragraph, table


def catalog_text(result: Json) -> str:
    """Models, GPUs, profiles and the roofline's factors."""
    return "\n".join(
        [
            "Models",
            *_models(result["models"]),
            "",
            "GPUs (dense rates; capsim catalog show NAME has the source of each figure)",
            *_gpus(result["gpus"]),
            "",
            "Profiles (measured step costs; a scenario names one by its path under step_cost)",
            *profile_table(result["profiles"]),
            *(line for text in _behind(result["profiles"]) for line in paragraph(text)),
            "",
            "Roofline: shares of the data sheet, and what the profiles show",
            *_factors(result["roofline"]),
            "",
        ]
    )


def _models(models: list[Json]) -> list[str]:
    rows = [
        [
            model["name"],
            f"{model['parameters'] / 1e9:.3g}",
            str(model["layers"]),
            f"{model['attention_heads']}/{model['kv_heads']}",
            f"{model['max_position_embeddings']:,}",
        ]
        for model in models
    ]
    return table(["model", "billion weights", "layers", "heads/KV heads", "longest"], "lrrrr", rows)


def _gpus(gpus: list[Json]) -> list[str]:
    rows = [
        [
            gpu["name"],
            f"{gpu['memory'] / (1 << 30):.2f}",
            number(gpu["memory_bandwidth"] / 1e12),
            number(gpu["dense_flops"]["bfloat16"] / 1e12),
            number(gpu["dense_flops"]["fp8"] / 1e12) if "fp8" in gpu["dense_flops"] else "-",
            number(gpu["link_bandwidth"] / 1e9),
        ]
        for gpu in gpus
    ]
    return table(["GPU", "GiB", "TB/s", "bf16 TFLOP/s", "fp8 TFLOP/s", "link GB/s"], "lrrrrr", rows)


def _behind(profiles: list[Json]) -> Iterator[str]:
    """A sentence on each engine of which several versions were measured."""
    behind = [profile for profile in profiles if profile["behind"]]
    for engine, newest in dict.fromkeys((each["engine"], each["behind"]) for each in behind):
        older = [each["engine_version"] for each in behind if each["engine"] == engine]
        counts = ", ".join(f"{older.count(version)} of {version}" for version in dict.fromkeys(older))
        yield f"The newest {engine} that was measured is {newest}; behind it are {counts}."


def _factors(factors: list[Json]) -> list[str]:
    rows = []
    for factor in factors:
        spread = factor["profiles"]
        latency = factor["value"] < 0.01  # seconds of a latency; the others are shares of the data sheet

        def shown(value: float, latency: bool = latency) -> str:
            return f"{value * 1e6:.3g}us" if latency else f"{value:.2f}"

        rows.append(
            [
                factor["name"],
                shown(factor["value"]),
                factor["tag"],
                f"{shown(spread['least'])} to {shown(spread['most'])}" if spread else "-",
                shown(spread["median"]) if spread else "-",
                str(spread["profiles"]) if spread else "-",
            ]
        )
    lines = table(["factor", "used", "known by", "profiles show", "median", "of"], "lrlrrr", rows)
    return lines + paragraph(
        "Set a factor of your own under step_cost in the scenario; better, use a profile."
    )
