"""What scenarios can name, as text."""

from __future__ import annotations

from capsim.report import Json
from capsim.report.number import count, number
from capsim.report.table import paragraph, table, terms

GIB = 2**30


def catalog_text(result: Json) -> str:
    """Models, GPUs, profiles and the roofline's factors."""
    return "\n".join(
        [
            "Models",
            *_models(result["models"]),
            "",
            "GPUs (dense rates; sources stand in configs/gpus)",
            *_gpus(result["gpus"]),
            "",
            "Profiles (measured step costs; a scenario names one by its path under step_cost)",
            *_profiles(result["profiles"]),
            "",
            "Roofline: shares of the data sheet, and what the profiles show",
            *_factors(result["roofline"]),
            "",
        ]
    )


def entry_report(result: Json) -> str:
    """What was understood of a model's config, so that a mistake is seen at once."""
    model, kv = result["model"], result["kv"]
    rows = [
        (
            count(request["tokens"]),
            number(request["bytes"] / GIB, zeros=True),
            number(request["bytes"] / request["tokens"] / 1024, zeros=True),
        )
        for request in kv["requests"]
    ]
    return "\n".join(
        [
            f"Model {model['name']}",
            *terms(_understood(result)),
            "",
            "KV cache of one request on one GPU, 16 bits",
            *table(["tokens", "GiB", "KiB a token"], "rrr", rows),
            "",
            f"Written to {result['file']}; a scenario names it by its path:",
            f"  model: {result['file']}",
            "",
        ]
    )


def _understood(result: Json) -> list[tuple[str, str]]:
    model, kv, vision = result["model"], result["kv"], result["model"]["vision"]
    weights = (
        f"{_billion(model['parameters'])} parameters, {2 * model['parameters'] / GIB:.2f} GiB at 16 bits"
    )
    if model["experts"] is not None:
        weights += f"; a token goes through {_billion(model['active_parameters'])}"
    known = [
        ("source", model["source"]),
        ("weights", weights),
        ("layers", " and ".join(_layers(group, model) for group in result["layers"])),
        ("longest", f"{count(model['max_position_embeddings'])} tokens"),
    ]
    if vision is not None:
        parameters = vision["split_parameters"] + vision["replicated_parameters"]
        said = f"{_billion(parameters)} parameters; the largest image takes {count(vision['image_tokens'])} tokens"
        known.append(("vision encoder", said))
    if kv["bytes_per_token"] is not None:
        known.append(("KV cache", f"{count(kv['bytes_per_token'])} bytes a token"))
    return known


def _layers(group: Json, model: Json) -> str:
    """Layers of one kind, and the shape that decides what they keep."""
    many = count(group["layers"])
    if group["kind"] == "state":
        return f"{many} with a state of constant size"
    if group["kind"] == "latent":
        latent = model["latent"]
        return f"{many} with a latent of {latent['kv_rank']} + {latent['rope_head_dim']} elements"
    heads = f"{model['kv_heads']} KV heads of {model['head_dim']} for {model['attention_heads']} query heads"
    if group["kind"] == "window":
        return f"{many} with a window of {count(model['window'])} tokens ({heads})"
    return f"{many} that see everything ({heads})"


def _billion(parameters: int) -> str:
    return f"{parameters / 1e9:.3g} billion"


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


def _profiles(profiles: list[Json]) -> list[str]:
    rows = [
        [
            profile["name"],
            f"{profile['tensor_parallel_size']} x {profile['gpu']}"
            + (" EP" if profile["expert_parallel_size"] > 1 else ""),
            f"{profile['engine']} {profile['engine_version']}",
            profile["date"],
            profile["measured_by"].split(",")[0]
            + (f", derived from {profile['derived_from']}" if profile["derived_from"] else ""),
        ]
        for profile in profiles
    ]
    return table(["path", "GPUs", "engine", "date", "by"], "lllll", rows)


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
