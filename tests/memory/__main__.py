"""Print how far the memory model is from what engines printed: ``python -m tests.memory``."""

from statistics import median

import numpy as np

from tests.memory.startups import STARTUPS, Startup

COLUMNS = ("weights", "activations", "outside", "KV cache", "weights", "KV cache")


def row(startup: Startup) -> str:
    """Signed errors, model - engine: GiB of the lines, then relative."""
    fit = startup.fit()
    sizes = startup.printed(fit)
    printed = (
        (sizes["weights"], startup.weights),
        (sizes["activations"], startup.activations),
        (sizes["outside PyTorch"], startup.outside_pytorch),
        (sizes["KV cache"], startup.kv),
    )
    cells = [f"{model - engine:+11.2f}" if engine else f"{'-':>11}" for model, engine in printed]
    errors = startup.errors(fit)
    cells += [
        f"{errors[name]:+11.2%}" if name in errors else f"{'-':>11}" for name in ("weights", "KV cache")
    ]
    where = f"{startup.source:10}{startup.model.name:24}{startup.ranks}x{startup.stages} {startup.version:8}"
    return where + "".join(cells) + f"  {startup.reason}"


def main() -> None:
    """Print the table and what of it the acceptance is about."""
    print(f"{'':46}" + "".join(f"{name:>11}" for name in COLUMNS))
    print(f"{'':46}" + "".join(f"{unit:>11}" for unit in ("GiB",) * 4 + ("",) * 2))
    for startup in STARTUPS:
        print(row(startup).rstrip())
    found = [startup.errors(startup.fit()) for startup in STARTUPS]
    for name in ("weights", "KV cache"):
        errors = [abs(errors[name]) for errors in found if name in errors]
        print(
            f"{name}: {len(errors)} rows, absolute error {median(errors):.2%} at the median, "
            f"{np.quantile(errors, 0.9):.2%} at P90, {max(errors):.2%} at most"
        )


if __name__ == "__main__":
    main()
