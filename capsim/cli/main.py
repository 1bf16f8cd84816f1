"""``capsim``: the commands, and what becomes of an error.

Answers go to stdout, progress and warnings to stderr. Exit codes: 0 answered, 2 bad input, 3 no feasible answer,
4 a defect of capsim, 130 interrupted.
"""

from __future__ import annotations

import json
import shlex
import sys
import traceback
from collections.abc import Sequence
from dataclasses import asdict

import click

from capsim import __version__
from capsim.cli.lazy_group import LazyGroup
from capsim.errors import BadInput, CapsimError, Fault, Infeasible

INTERRUPTED = 130
"""128 + SIGINT, as shells report it."""


SUMMARIES = {
    "calibrate": "Measured step costs: measure them here, bring them in from others, show them, and compare them.",
    "catalog": "What scenarios can name: list it, which is also what happens without a command, show one, or add one.",
    "check": "Read a scenario with its trace, profile and validation, and report every mistake.",
    "doctor": "Is this installation well: packages, data, hardware, and a test of known answers?",
    "explain": "Why is the answer what it is: which load, which gate, which constraint, and what would change it?",
    "fit": "Does the model fit, how many KV blocks remain, how many sequences do they hold, and why not more?",
    "init": "Write a commented scenario to begin with.",
    "plan": "How many replicas serve the demand inside every objective, with reserve and a replica missing?",
    "report": "Print an earlier answer again, and draw its figures and its page anew, from its run folder alone.",
    "run": "Simulate a fleet once: at a rate, at a concurrency, or the trace as it is.",
    "schema": "Print the JSON Schema of a scenario file, for editors.",
    "sweep": "Judge the scenario's own fleet at many rates, numbers of clients or settings.",
    "validate": "Would the simulator have predicted what a benchmark measured?",
}
"""Commands, and the first sentence of each one's own help: what a list of them shows without importing any."""


@click.group(
    cls=LazyGroup,
    summaries=SUMMARIES,
    elsewhere={"calibrate": "calibrate.command"},
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="capsim")
def cli() -> None:
    """How many replicas of which configuration serve this LLM demand, and how sure are we?

    \b
    Example:
      capsim plan configs/scenarios/chat-llama-3.1-8b-h200.yaml
    """


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    sys.exit(_run(arguments))


def _run(arguments: list[str]) -> int:
    try:
        command = shlex.join(("capsim", *arguments))
        cli.main(args=arguments, prog_name="capsim", standalone_mode=False, obj=command)
    except CapsimError as error:
        return _report(error, as_json="--json" in arguments)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (KeyboardInterrupt, click.exceptions.Abort):
        click.echo("interrupted", err=True)
        return INTERRUPTED
    except BrokenPipeError:  # the reader of our output has left; nothing is wrong here
        sys.stderr.close()
        return 0
    except Exception:
        click.echo(traceback.format_exc(), err=True)
        click.echo("this is a defect of capsim, not of your input", err=True)
        return CapsimError.exit_code
    return 0


def _report(error: CapsimError, as_json: bool) -> int:
    kind = {2: "bad input", 3: "no feasible answer", 4: "defect of capsim"}[error.exit_code]
    click.echo(f"capsim: {kind}\n{error}", err=True)
    if as_json:
        click.echo(json.dumps({"error": kind, "exit_code": error.exit_code, **_details(error)}, indent=2))
    return error.exit_code


def _details(error: CapsimError) -> dict[str, object]:
    if isinstance(error, BadInput):
        return {"faults": [asdict(f) if isinstance(f, Fault) else {"what": f} for f in error.faults]}
    if isinstance(error, Infeasible):
        return {"limit": error.limit, "remedies": list(error.remedies)}
    return {"what": str(error)}


if __name__ == "__main__":
    main()
