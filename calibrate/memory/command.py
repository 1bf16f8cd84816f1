"""``capsim calibrate memory``: what an engine takes of the memory, line by line."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click

from calibrate.columns import columns, sentences
from calibrate.engine.engine import ENGINES, stated_arguments
from calibrate.engine.model_folder import model_of
from calibrate.memory.account import BYTES, Row, account, cache_account
from calibrate.memory.section import Holds, cache_section, section_of, write_into
from calibrate.memory.settings import question_of
from calibrate.memory.start import CPU, GPU, Start, start
from calibrate.options import json_option, limit_options
from calibrate.stated import stated_gpu, stated_model
from capsim.catalog import Gpu, Model
from capsim.errors import BadInput, Fault
from capsim.memory import KvLayout
from capsim.memory.measured import disagreements
from capsim.memory.startup_log import StartupLog, read_startup_log

GIB = 1 << 30
SETTINGS = (
    "tensor_parallel_size",
    "gpu_memory_utilization",
    "max_model_len",
    "max_num_seqs",
    "max_num_batched_tokens",
    "block_size",
    "enforce_eager",
)
_COLUMNS = ("measured", "counted", "difference")
_ON_A_CPU = (
    "On a CPU an engine has no GPU memory: total, budget, weights, activations, what lies outside PyTorch and CUDA "
    "graphs cannot be told there. The KV cache is as large as it was asked to be; its blocks are the engine's own."
)


@click.command("memory")
@click.option(
    "--log",
    "log_file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Start-up log of vLLM, best with VLLM_LOGGING_LEVEL=DEBUG.",
)
@click.option("--engine", type=click.Choice(list(ENGINES)), help="Start the one installed in this Python.")
@click.option("--model", required=True, help="Name in the catalog, or a folder with a config.json.")
@click.option("--gpu", help="GPU of the catalog; not asked of an engine on a CPU.")
@click.option("--dtype", default="bfloat16", show_default=True, help="Of the weights.")
@click.option("--kv-dtype", default="bfloat16", show_default=True, help="Of the KV cache.")
@click.option("--engine-version", "version", help="Where the log does not tell it; so the next ones.")
@click.option("--tp", "tensor_parallel_size", type=click.IntRange(min=1), help="Tensor-parallel ranks.")
@limit_options()
@click.option("--block-size", type=click.IntRange(min=1), help="Tokens of a KV block.")
@click.option(
    "--gpu-memory-utilization",
    type=click.FloatRange(0, 1, min_open=True),
    help="Share of the memory that the engine may use.",
)
@click.option(
    "--engine-arg",
    "more",
    multiple=True,
    metavar="NAME=VALUE",
    help="Any other argument of an engine to start, by its own name.",
)
@click.option(
    "--into", type=click.Path(path_type=Path, dir_okay=False), help="Profile to write what was measured into."
)
@json_option
def memory(
    log_file: Path | None,
    engine: str | None,
    model: str,
    gpu: str | None,
    dtype: str,
    kv_dtype: str,
    more: tuple[str, ...],
    into: Path | None,
    as_json: bool,
    **stated: Any,
) -> None:
    """What an engine takes of a GPU's memory, line by line, beside what capsim counts.

    From the log of a start, or from an engine that is started here with random weights. With --into a profile holds
    what was measured, and `capsim fit` and `capsim plan` use it in place of their rules.

    \b
    Example:
      capsim calibrate memory --log vllm.log --model llama-3.1-8b --gpu h100-sxm --max-num-seqs 1024
    """  # noqa: D301 (click looks for the character, not for two)
    if (log_file is None) == (engine is None):
        raise BadInput(Fault("capsim calibrate memory", "one source", "", "either --log or --engine"))
    with TemporaryDirectory() as folder:
        shapes, config = _shapes(model, engine, Path(folder))
        if engine is not None:
            told = start(engine, _arguments(config, dtype, kv_dtype, stated, more))
        else:
            told = Start(read_startup_log(_given(log_file)), GPU, "")
    source = "log" if engine is None else "engine"
    holds = Holds(shapes, dtype, kv_dtype, _gpu(gpu, told))
    answer = _on_a_cpu(holds, told.log) if told.device == CPU else _on_a_gpu(holds, told, source, stated)
    if into is not None:
        write_into(into, answer["section"], holds, answer["settings"]["tensor_parallel_size"])
    answer |= {"into": None if into is None else str(into)}
    click.echo(json.dumps(answer, indent=2) if as_json else "\n".join(_text(answer)))
    for warning in answer["warnings"]:
        click.echo(f"warning: {warning}", err=True)


def _given(path: Path | None) -> Path:
    if path is None:
        raise AssertionError("a log or an engine was asked for")
    return path


def _shapes(name: str, engine: str | None, folder: Path) -> tuple[Model, Path]:
    """The model, and the folder that an engine is started with."""
    if engine is not None or (Path(name) / "config.json").exists():
        return model_of(name, folder / "model")
    return stated_model(name), folder


def _gpu(name: str | None, told: Start) -> Gpu | None:
    if name is not None:
        return stated_gpu(name)
    if told.device == GPU:
        what = (
            f"nothing to count for: the engine ran on {told.gpu_name or 'a GPU that its log does not name'}"
        )
        raise BadInput(Fault("--gpu", what, "", "a GPU of the catalog, see `capsim catalog`"))
    return None


def _arguments(
    config: Path, dtype: str, kv_dtype: str, stated: Mapping[str, Any], more: tuple[str, ...]
) -> dict[str, Any]:
    """An engine's arguments by their own names."""
    if stated["version"] is not None:
        raise BadInput(
            Fault("--engine-version", "the engine that is installed has its own", "", "no version")
        )
    named = stated_arguments(more)
    given = {name: value for name, value in stated.items() if value is not None}
    precision = {"quantization": "fp8"} if dtype == "fp8" else {"dtype": dtype}
    cache = {} if kv_dtype in ("bfloat16", "float16") else {"kv_cache_dtype": kv_dtype}
    return {"model": str(config.resolve()), **precision, **cache, **given, **named}


def _on_a_gpu(holds: Holds, told: Start, source: str, stated: Mapping[str, Any]) -> dict[str, Any]:
    if holds.gpu is None:
        raise AssertionError("a GPU was asked for")
    question = question_of(told.log, holds.model, holds.gpu, holds.dtype, holds.kv_dtype, stated)
    return _answer(
        holds,
        question.engine_version,
        {name: getattr(question, name) for name in SETTINGS},
        account(question, told.log),
        section_of(question, told.log, source),
        disagreements(question, told.log),
        "",
    )


def _on_a_cpu(holds: Holds, log: StartupLog) -> dict[str, Any]:
    settings: dict[str, Any] = {name: value for name, value in log.settings.items() if name in SETTINGS}
    layout = KvLayout.of(
        holds.model, settings["tensor_parallel_size"], holds.kv_dtype, settings["block_size"]
    )
    version = str(log.settings["version"])
    rows = cache_account(layout, log)
    return _answer(holds, version, settings, rows, cache_section(layout, log, version), (), _ON_A_CPU)


def _answer(
    holds: Holds,
    version: str,
    settings: Mapping[str, Any],
    rows: tuple[Row, ...],
    section: Mapping[str, Any],
    warnings: tuple[str, ...],
    remark: str,
) -> dict[str, Any]:
    """What the command prints; sizes in bytes of one rank."""
    return {
        "model": holds.model.name,
        "gpu": None if holds.gpu is None else holds.gpu.name,
        "dtype": holds.dtype,
        "kv_dtype": holds.kv_dtype,
        "engine": f"vllm {version}",
        "settings": dict(settings),
        "lines": [{**vars(row), "difference": row.difference} for row in rows],
        "section": dict(section),
        "remark": remark,
        "warnings": list(warnings),
    }


def _text(answer: dict[str, Any]) -> list[str]:
    settings = ", ".join(f"{name} {value}" for name, value in answer["settings"].items())
    where = f" on {answer['gpu']}" if answer["gpu"] else " on a CPU"
    rows = [
        (line["name"], *(_size(line[key], line["unit"], key) for key in _COLUMNS), line["note"])
        for line in answer["lines"]
    ]
    lines = [
        f"{answer['model']} in {answer['dtype']}, KV in {answer['kv_dtype']},{where}, {answer['engine']}",
        f"  {settings}",
        "",
        *columns(("one rank", "measured, GiB", "counted, GiB", "difference", ""), "lrrrl", rows),
        *sentences([answer["remark"]] if answer["remark"] else []),
    ]
    return lines + ([f"{answer['into']}: memory written"] if answer["into"] else [])


def _size(value: int | None, unit: str, column: str) -> str:
    if value is None:
        return "-"
    sign = "+" if column == "difference" else ""
    return f"{value / GIB:{sign}.2f}" if unit == BYTES else f"{value:{sign},}"
