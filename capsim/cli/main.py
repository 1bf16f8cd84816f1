"""``capsim``: the commands, and what becomes of an error.

Answers go to stdout, progress and warnings to stderr. Exit codes: 0 answered, 2 bad input, 3 no feasible answer,
4 a defect of capsim, 130 interrupted.
"""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Sequence
from dataclasses import asdict

import click

from capsim import __version__
from capsim.cli.catalog import catalog
from capsim.cli.check import check
from capsim.cli.doctor import doctor
from capsim.cli.explain import explain
from capsim.cli.fit import fit
from capsim.cli.init import init
from capsim.cli.plan import plan
from capsim.cli.run import run
from capsim.cli.schema import schema
from capsim.cli.sweep import sweep
from capsim.cli.validate import validate
from capsim.errors import BadInput, CapsimError, Fault, Infeasible

INTERRUPTED = 130
"""128 + SIGINT, as shells report it."""


class LazyGroup(click.Group):
    """Commands of its own, and `calibrate`, which is imported only when somebody asks for it."""

    def list_commands(self, context: click.Context) -> list[str]:
        """All names, in order."""
        return sorted([*super().list_commands(context), "calibrate"])

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        """The command of this name, None if there is none."""
        if name == "calibrate":
            from calibrate.command import calibrate

            return calibrate
        return super().get_command(context, name)


@click.group(
    cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(__version__, prog_name="capsim")
def cli() -> None:
    """How many replicas of which configuration serve this LLM demand, and how sure are we?

    \b
    Example:
      capsim plan configs/scenarios/chat-llama-3.1-8b-h200.yaml
    """


for command in (catalog, check, doctor, explain, fit, init, run, plan, schema, sweep, validate):
    cli.add_command(command)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    sys.exit(_run(arguments))


def _run(arguments: list[str]) -> int:
    try:
        cli.main(args=arguments, prog_name="capsim", standalone_mode=False)
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
