from __future__ import annotations

import platform
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import click

from capsim import __version__
from capsim.catalog.data import data_folder, data_names, data_path
from capsim.cli.folder import json_text
from capsim.cli.hardware import cores, gpus, in_catalog, memory
from capsim.cli.installation import Package, packages
from capsim.errors import BadInput, CapsimError
from capsim.report.table import table
from capsim.scenario import load
from capsim.units import format_size

WELL, ABSENT, WRONG, DEFECT = "well", "absent", "wrong", "defect"
"""Standing of a check; an absent thing is needed by nothing that was asked for."""
EXIT_CODES = {WRONG: BadInput.exit_code, DEFECT: CapsimError.exit_code}
DATA = {
    "models": (".yaml",),
    "gpus": (".yaml",),
    "profiles": (".json",),
    "traces": (".csv", ".jsonl.gz"),
    "scenarios": (".yaml",),
    "starters": (".yaml",),
}
"""Folders of shipped data, and how the names of their files end."""
QUICK_START = "chat-llama-3.1-8b-h200.yaml"


@dataclass(frozen=True)
class Check:
    """One thing that was looked at.

    Attributes:
        name: what.
        standing: ``well``, ``absent``, ``wrong`` or ``defect``.
        found: what there is.
        remedy: what would make it well, empty if it is.
    """

    name: str
    standing: str
    found: str
    remedy: str = ""


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")
def doctor(as_json: bool) -> None:
    """Is this installation well: packages, data, hardware, and a test of known answers?

    Takes a few seconds. Exit code 0 if all is well, 2 if something has to be put right here, 4 if capsim does not
    compute what it should.

    \b
    Example:
      capsim doctor --json
    """
    checks = [check for look in LOOKS for check in look()]
    standings = {check.standing for check in checks}
    result = {
        "schema": "capsim.doctor",
        "schema_version": 1,
        "capsim_version": __version__,
        "well": standings <= {WELL, ABSENT},
        "checks": [asdict(check) for check in checks],
    }
    click.echo(json_text(result) if as_json else "\n".join(_text(checks)))
    code = max((EXIT_CODES.get(standing, 0) for standing in standings), default=0)
    if code:
        names = ", ".join(check.name for check in checks if check.standing in EXIT_CODES)
        click.echo(f"capsim: not well: {names}", err=True)
        raise SystemExit(code)


def _text(checks: list[Check]) -> list[str]:
    rows = [
        (check.name, check.standing, check.found + (f"; {check.remedy}" if check.remedy else ""))
        for check in checks
    ]
    return [f"capsim {__version__}", "", *table(("check", "", "found"), "lll", rows)]


def _python() -> Iterator[Check]:
    version = platform.python_version()
    yield Check("python", WELL, f"{version} on {platform.platform()}")


def _packages() -> Iterator[Check]:
    """Those of capsim itself, then each extra's."""
    found = packages()
    if not found:
        yield Check("packages", ABSENT, "capsim runs from a clone", "pip install . tells what it needs")
        return
    for extra in dict.fromkeys(package.extra for package in found):
        asked = [package for package in found if package.extra == extra]
        yield _extra(extra, asked) if extra else _own(asked)


def _own(asked: list[Package]) -> Check:
    wrong = [package for package in asked if not package.well]
    said = ", ".join(str(package) for package in wrong or asked)
    return Check("packages", WRONG, said, "pip install capsim") if wrong else Check("packages", WELL, said)


def _extra(extra: str, asked: list[Package]) -> Check:
    """An extra that is not there in full is absent, not wrong: only who asks for it needs it."""
    name, wrong = f"extra {extra}", [package for package in asked if not package.well]
    said = ", ".join(str(package) for package in wrong or asked)
    return Check(name, ABSENT, said, f"pip install 'capsim[{extra}]'") if wrong else Check(name, WELL, said)


def _machine() -> Iterator[Check]:
    size = memory()
    held = f", {format_size(size)} of memory" if size else ""
    yield Check("cores", WELL, f"{cores()} for simulations{held}")


def _gpus() -> Iterator[Check]:
    """A plan needs none; measuring a profile does."""
    asked, names = gpus()
    if not names:
        said = f"{asked} shows none" if asked else "neither nvidia-smi nor torch is here to ask"
        yield Check("gpu", ABSENT, said, "only calibrate needs one")
    for name in dict.fromkeys(names):
        known = in_catalog(name)
        said = f"{names.count(name)} x {name}, by {asked}"
        yield Check("gpu", WELL, f"{said}; in the catalog: {known or 'not there'}")


def _data() -> Iterator[Check]:
    counts = {kind: len(data_names(kind, suffixes)) for kind, suffixes in DATA.items()}
    missing = [kind for kind, count in counts.items() if not count]
    if missing:
        where = data_folder("").resolve()
        yield Check("data", WRONG, f"no {', no '.join(missing)} in {where}", "install capsim anew")
        return
    try:
        load(data_path("scenarios", QUICK_START))
    except BadInput as error:
        yield Check("data", WRONG, f"{QUICK_START}: {error}", "install capsim anew")
        return
    said = ", ".join(f"{kind} {count}" for kind, count in counts.items())
    yield Check("data", WELL, f"{said}; {QUICK_START} is sound")


def _folder() -> Iterator[Check]:
    """Plans are left under the current folder."""
    try:
        with tempfile.TemporaryFile(dir=Path.cwd()):
            pass
    except OSError as error:
        said = f"cannot write here: {error.strerror}"
        yield Check("folder", WRONG, said, "change to another folder, or give --out")
    else:
        yield Check("folder", WELL, "results can be written here")


def _self_test() -> Iterator[Check]:
    from capsim.plan.self_test import self_tests  # scipy is slow to import

    try:
        tests = self_tests()
    except (BadInput, OSError) as error:
        yield Check("self-test", WRONG, str(error), "install capsim anew")
        return
    except CapsimError as error:
        yield Check("self-test", DEFECT, str(error), "report it with this output")
        return
    for test in tests:
        said = f"{test.found:.6g}, known to be {test.expected:.6g}"
        said += f" give or take {test.tolerance:.2g}" if test.tolerance else ""
        if test.passed:
            yield Check(test.name, WELL, said)
        else:
            yield Check(test.name, DEFECT, said, "report it with this output")


LOOKS: tuple[Callable[[], Iterator[Check]], ...] = (
    _python,
    _packages,
    _machine,
    _gpus,
    _data,
    _folder,
    _self_test,
)
