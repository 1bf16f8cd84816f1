"""What the settings of an engine must agree on."""

from __future__ import annotations

from capsim.catalog import Model
from capsim.catalog.schema import shown
from capsim.scenario.engine_section import EngineSection
from capsim.scenario.inspection import Inspection


def check_engine(inspection: Inspection, model: Model | None) -> None:
    """What the engine's settings must agree on, also with the model."""
    engine = inspection.section.engine
    sequences, tokens = ("engine", "max_num_seqs"), ("engine", "max_num_batched_tokens")
    if inspection.sound(sequences, tokens) and engine.max_num_batched_tokens < engine.max_num_seqs:
        what = f"{engine.max_num_batched_tokens} is less than max_num_seqs ({engine.max_num_seqs})"
        inspection.report(tokens, what, f"at least {engine.max_num_seqs}")
    if engine.num_gpu_blocks_override is not None and engine.num_gpu_blocks is not None:
        override = ("engine", "num_gpu_blocks_override")
        inspection.report(override, "num_gpu_blocks is stated too, and is the same setting", "one of them")
    _offload(inspection, engine)
    if model is not None:
        _ranks(inspection, engine, model)
        _experts(inspection, engine, model)
        _coverage(inspection, engine, model)


def _offload(inspection: Inspection, engine: EngineSection) -> None:
    """Tiers have names of their own, and need an engine that looks for what is in them."""
    if engine.kv_offload and not engine.enable_prefix_caching:
        what = "offloaded KV is found as a prefix is, and enable_prefix_caching is false"
        inspection.report(("engine", "kv_offload"), what, "enable_prefix_caching: true", of_key=True)
    names = [tier.name for tier in engine.kv_offload]
    for index, name in enumerate(names):
        if name in names[:index]:
            place = ("engine", "kv_offload", index, "name")
            inspection.report(place, f"there is a tier {shown(name)} before", "each name once")


def _ranks(inspection: Inspection, engine: EngineSection, model: Model) -> None:
    """The model's heads and layers are dealt out evenly, and to each rank some."""
    path, size = ("engine", "tensor_parallel_size"), engine.tensor_parallel_size
    if inspection.sound(path) and not model.splits_over(size):
        sizes = [str(other) for other in range(1, model.attention_heads + 1) if model.splits_over(other)]
        columns = " or ".join(str(width) for width in model.mlp_columns)
        what = (
            f"{size} GPUs cannot share {model.name} ({model.attention_heads} attention heads, "
            f"{model.kv_heads} KV heads, {columns} MLP columns)"
        )
        inspection.report(path, what, f"one of {', '.join(sizes)}")
    path, size = ("engine", "pipeline_parallel_size"), engine.pipeline_parallel_size
    if inspection.sound(path) and size > model.layers:
        inspection.report(path, f"{size} stages cannot hold {model.layers} layers", f"at most {model.layers}")


def _experts(inspection: Inspection, engine: EngineSection, model: Model) -> None:
    """Experts are dealt out whole, or split over the ranks of all data-parallel groups."""
    if model.experts is None:
        if engine.enable_expert_parallel:
            inspection.report(("engine", "enable_expert_parallel"), f"{model.name} has no experts", "false")
        return
    path = ("engine", "data_parallel_size")
    ranks = engine.tensor_parallel_size * engine.data_parallel_size
    if engine.data_parallel_size == 1 or engine.enable_expert_parallel or model.experts_split_over(ranks):
        return
    if inspection.sound(path, ("engine", "tensor_parallel_size"), ("engine", "enable_expert_parallel")):
        columns = model.experts.intermediate_size
        what = f"{ranks} GPUs do not divide the {columns} columns of {model.name}'s experts"
        inspection.report(path, what, "enable_expert_parallel: true")


def _coverage(inspection: Inspection, engine: EngineSection, model: Model) -> None:
    """Nothing is asked of a model that it does not have."""
    length = engine.max_model_len
    if length is not None and length > model.max_position_embeddings:
        what = f"{length} is longer than {model.name} was published for"
        inspection.report(("engine", "max_model_len"), what, f"at most {model.max_position_embeddings}")
    if engine.kv_offload and (model.window is not None or model.linear is not None):
        what = f"{model.name} has layers with windows or states, whose prefixes are not cached"
        inspection.report(("engine", "kv_offload"), what, "no tier", of_key=True)
    if engine.limit_mm_per_prompt.image and model.vision is None:
        what = f"the catalog knows no vision encoder of {model.name}"
        inspection.report(("engine", "limit_mm_per_prompt", "image"), what, "0")
