from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from capsim.catalog import load_gpu
from capsim.catalog.entry import gpu_text
from capsim.catalog.loader import known_gpu
from capsim.cli.folder import json_text
from capsim.cli.new_entry import entry_options, refuse_names, write_new
from capsim.cli.stated_gpu import StatedGpu
from capsim.report.catalog_entry import gpu_report


@click.command()
@click.argument("name")
@click.option(
    "--like", metavar="GPU", help="A GPU of the catalog or a file, for the figures not stated here."
)
@click.option("--memory", metavar="SIZE", help="What the driver reports in total, such as 139.8GiB.")
@click.option("--memory-bandwidth", metavar="BANDWIDTH", help="Such as 4.8TB/s.")
@click.option(
    "--rate",
    "rates",
    multiple=True,
    metavar="DTYPE=RATE",
    help="Dense rate of the matrix units, such as bfloat16=989.4TFLOP/s. Repeat it for each dtype; with one, none of"
    " another GPU is kept.",
)
@click.option("--link-bandwidth", metavar="BANDWIDTH", help="To another GPU of a node, one direction.")
@click.option(
    "--link-per-peer/--one-link",
    default=None,
    help="Whether each pair of GPUs has a link of its own, or a GPU reaches all through one.",
)
@click.option(
    "--source",
    "sources",
    multiple=True,
    metavar="[FIGURE=]TEXT",
    help="Where the figures stated here come from, or one of them: memory, memory_bandwidth, dense_flops,"
    " link_bandwidth. May be repeated.",
)
@entry_options("GPU")
def add_gpu(
    name: str,
    like: str | None,
    memory: str | None,
    memory_bandwidth: str | None,
    rates: tuple[str, ...],
    link_bandwidth: str | None,
    link_per_peer: bool | None,
    sources: tuple[str, ...],
    aliases: tuple[str, ...],
    out: Path | None,
    as_json: bool,
) -> None:
    """Write a catalog entry of a GPU from figures of yours, each with its source.

    A scenario names the entry by its path, such as gpu: my-gpu.yaml. What is not stated is that of another GPU, with
    --like. Figures that no GPU has are refused: a slip of a unit or of a prefix would go through every answer.

    \b
    Example:
      capsim catalog add-gpu h200-half-link --like h200 --link-bandwidth 225GB/s --source "9 of 18 links are up"
    """
    refuse_names(name, aliases, known_gpu, option="NAME")
    texts = {"memory": memory, "memory_bandwidth": memory_bandwidth, "link_bandwidth": link_bandwidth}
    figures = {figure: text for figure, text in texts.items() if text is not None}
    stated = StatedGpu(name, figures, rates, sources, link_per_peer)
    gpu = stated.gpu(None if like is None else load_gpu(like))
    target = Path(f"{Path(name).name}.yaml") if out is None else out
    write_new(target, gpu_text(gpu, aliases))
    result = {"file": str(target), "gpu": {**asdict(gpu), "aliases": list(aliases)}}
    click.echo(json_text(result) if as_json else gpu_report(result))
