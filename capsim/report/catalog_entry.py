"""One entry of the catalog as text: what was understood when it was written, and every figure with its source."""

from __future__ import annotations

from collections.abc import Iterator

from capsim.report import Json
from capsim.report.age import age_text
from capsim.report.number import count, number
from capsim.report.profile_table import gpus_of, profile_table
from capsim.report.table import paragraph, table, terms
from capsim.units import format_bandwidth, format_compute, format_size

GIB = 2**30


def model_report(result: Json) -> str:
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


def gpu_report(result: Json) -> str:
    """A GPU's figures as they were written, each with its source."""
    gpu = result["gpu"]
    return "\n".join(
        [
            f"GPU {gpu['name']}",
            *(line for figure in _gpu_figures(gpu) for line in _sourced(*figure)),
            "",
            f"Written to {result['file']}; a scenario names it by its path:",
            f"  gpu: {result['file']}",
            "",
        ]
    )


def entry_text(result: Json) -> str:
    """A model, a GPU or a profile of the catalog: every figure and its source."""
    return "\n".join([*(_profile(result) if result["kind"] == "profile" else _entry(result)), ""])


def _gpu_figures(gpu: Json) -> Iterator[tuple[str, str, str]]:
    """Name, value and source of each figure; rates have one source together."""
    sources = gpu["sources"]
    rates = ", ".join(f"{dtype} {format_compute(rate)}" for dtype, rate in gpu["dense_flops"].items())
    yield "memory", format_size(gpu["memory"]), sources["memory"]
    yield "memory_bandwidth", format_bandwidth(gpu["memory_bandwidth"]), sources["memory_bandwidth"]
    yield "dense_flops", rates, sources["dense_flops"]
    link = format_bandwidth(gpu["link_bandwidth"]) + (", to each peer" if gpu["link_per_peer"] else "")
    yield "link_bandwidth", link, sources["link_bandwidth"]


def _sourced(name: str, value: str, source: str) -> list[str]:
    """A figure, and its source below it."""
    return [f"  {name}: {value}", *paragraph(source, depth=2)]


def _entry(result: Json) -> Iterator[str]:
    yield f"{'Model' if result['kind'] == 'model' else 'GPU'} {result['name']}"
    if result["aliases"]:
        yield from paragraph(f"also {', '.join(result['aliases'])}")
    if result["kind"] == "model":
        yield from paragraph(f"source: {result['source']}")
        yield from paragraph(
            f"counted from it: {count(result['parameters'])} weights, of which a token goes through "
            f"{count(result['active_parameters'])}"
        )
    yield ""
    rows = [(figure["name"], figure["value"], figure["source"]) for figure in result["figures"]]
    yield from table(("figure", "value", "source"), "lll", rows)
    yield ""
    yield from _covering(result["profiles"])


def _covering(profiles: list[Json]) -> list[str]:
    """The profiles of a model or of a GPU."""
    if not profiles:
        return ["No profile covers it: a step is priced by the roofline."]
    return ["Profiles that cover it", *profile_table(profiles)]


def _covered(profile: Json) -> str:
    """Model, dtypes and GPUs that a profile holds for."""
    dtypes = f"{profile['dtype']} weights, {profile['kv_dtype']} KV"
    return f"{profile['model']} ({dtypes}) on {gpus_of(profile)}"


def _profile(result: Json) -> Iterator[str]:
    measured = f"{result['engine']} {result['engine_version']} on {result['gpu_name']}"
    yield f"Profile {result['name']}"
    yield from terms(
        [
            ("covers", _covered(result)),
            ("measured", f"{measured}, {result['date']} ({age_text(result['age_days'])})"),
            *([("behind", f"{result['engine']} {result['behind']}")] if result["behind"] else []),
            ("by", result["measured_by"]),
            *([("derived from", result["derived_from"])] if result["derived_from"] else []),
            ("licence", result["licence"]),
            ("attribution", result["attribution"]),
            ("written by", result["importer"]),
            ("files", ", ".join(file["name"] for file in result["files"])),
        ]
    )
    yield ""
    yield "Measured from, to"
    rows = [(axis, count(least), count(most)) for axis, (least, most) in result["ranges"].items()]
    yield from table(("axis", "from", "to"), "lrr", rows)
    yield ""
    yield "What the source lacks, and how it was filled"
    for note in result["notes"]:
        yield from paragraph(note, mark="-")
    yield ""
    yield f"Its tables and their errors: capsim calibrate show configs/profiles/{result['name']}.json"
