"""A pasted ``vllm serve`` command line, word by word."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from capsim.catalog.schema import closest
from capsim.scenario.serve_flags import ALSO, FLAGS, NEUTRAL, OFF, SHORT, Effect, Flag

LONGEST = 1 << 15
"""Characters of a command line; what is longer is something else, pasted by mistake."""
_CONTINUED = re.compile(r"\\(?:\s+|$)")
_ASSIGNED = re.compile(r"([A-Za-z_]\w*)=.*", re.DOTALL)
_FLAG = re.compile(r"--?[A-Za-z]")
_LEVEL = re.compile(r"-O(\d)")
_VARIABLE = re.compile(r"\$\{?\w")
_END = re.compile(r"(?:\d?>.*|[|&;]+|\d>&\d)")
"""A word of the shell behind the command."""
_PYTHON = re.compile(r"(?:.*/)?python[\d.]*")
MODULES = "vllm.entrypoints."
"""Modules of vLLM that start a server."""
SERVERS = "vllm serve, or python -m vllm.entrypoints.openai.api_server"
CONTAINERS = frozenset({"docker", "podman", "nerdctl", "kubectl"})
OTHERS = frozenset({"sglang", "trtllm-serve", "text-generation-launcher", "lmdeploy"})
"""Programs that start other engines."""
HARMLESS = re.compile(r"VLLM_.*(?:KEY|LOG|CACHE|HOST|PORT|USAGE|TRACK).*")
"""Variables of vLLM that name files and places, or are secret."""
ENVIRONMENT = Flag("", "!", Effect.NOT_MODELLED, "what an environment variable changes in the engine")
SWITCHES = {"true": True, "false": False}


@dataclass(frozen=True)
class Problem:
    """What is wrong in a command line; the fields are those of a `Fault`."""

    what: str
    expected: str = ""
    suggestion: str = ""


@dataclass(frozen=True)
class StatedFlag:
    """A flag as a command line states it.

    Attributes:
        flag: which one.
        name: as it stands, with its dashes, e.g. ``-tp`` or ``--no-enable-prefix-caching``.
        values: what follows it.
        on: False: it is turned off by ``--no-``, or by ``false`` behind it.
        part: keys behind a dot, e.g. ``image`` of ``--limit-mm-per-prompt.image 2``.
    """

    flag: Flag
    name: str
    values: tuple[str, ...] = ()
    on: bool = True
    part: tuple[str, ...] = ()

    @property
    def value(self) -> str:
        """What follows, as one text."""
        return " ".join(self.values)

    @property
    def words(self) -> list[str]:
        """The flag and what follows it."""
        return [self.name, *self.values]

    def __str__(self) -> str:
        return shlex.join(self.words)

    @property
    def changes_something(self) -> bool:
        """Whether it states anything but what holds without it."""
        if self.flag.values == "!":
            return self.on
        value = self.value.lower()
        return value not in OFF and value not in NEUTRAL.get(self.flag.name, ())

    @property
    def is_variable(self) -> bool:
        """Whether something that matters is left to the shell."""
        return self.flag.effect is not Effect.IGNORED and any(_VARIABLE.match(value) for value in self.values)

    def mapping(self) -> dict[str, Any] | None:
        """A value in JSON, in ``key=value,key=value``, or behind a dot; None where it is none."""
        if self.part:
            inner: Any = _plain(self.value)
            for key in reversed(self.part):
                inner = {key: inner}
            return dict(inner)
        try:
            read = json.loads(self.value)
        except (ValueError, RecursionError):
            pairs = [pair.partition("=") for pair in self.value.split(",")]
            return {key: _plain(value) for key, _, value in pairs} if all(pair[1] for pair in pairs) else None
        return read if isinstance(read, dict) else None


def _plain(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


@dataclass
class ServeCommand:
    """What a command line states.

    Attributes:
        model: that it serves; empty: it names none.
        flags: every flag, in order; of two of one name the later holds.
        problems: what could not be read.
    """

    model: str = ""
    flags: list[StatedFlag] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    def last(self) -> Mapping[tuple[str, tuple[str, ...]], StatedFlag]:
        """The flag that holds of each name."""
        return {(stated.flag.name, stated.part): stated for stated in self.flags}


def read_command(text: str) -> ServeCommand:
    """Read a command line, with or without ``vllm serve`` and the model in front.

    Backslashes at line ends, quotes, ``--flag value``, ``--flag=value``, ``--no-flag``, ``-tp 2``, underscores for
    dashes and ``--json.key value`` are read as vLLM's own parser reads them; what a shell does behind the command is
    left out.
    """
    command = ServeCommand()
    if len(text) > LONGEST:
        what = f"is no command line: it has {len(text):,} characters"
        command.problems.append(Problem(what, f"at most {LONGEST:,}"))
        return command
    try:
        words = shlex.split(_CONTINUED.sub(" ", text))
    except ValueError as error:
        command.problems.append(Problem(f"is no command line: {str(error).lower()}"))
        return command
    words = _program(words, command)
    while words and not _END.fullmatch(words[0]):
        words = _next(words, command)
    for stated in [stated for stated in command.flags if stated.is_variable]:
        command.problems.append(Problem(f"{stated}: a variable of the shell", "its value"))
        command.flags.remove(stated)
    return command


def _program(words: list[str], command: ServeCommand) -> list[str]:
    """Take variables, the program and the model from the front."""
    while words and (assigned := _ASSIGNED.fullmatch(words[0])) and not _FLAG.match(words[0]):
        if assigned[1].startswith("VLLM_") and not HARMLESS.fullmatch(assigned[1]):
            command.flags.append(StatedFlag(ENVIRONMENT, words[0], part=(assigned[1],)))
        words = words[1:]
    other = _other_program(words)
    if other is not None:
        command.problems.append(other)
        return []
    if words[:1] == ["vllm"]:
        if words[1:2] != ["serve"]:
            said = " ".join(words[:2])
            command.problems.append(Problem(f"{said!r} starts no server", "vllm serve"))
        words = words[2:]
    elif words and _PYTHON.fullmatch(words[0]):
        words = words[3:]
    if words and not _FLAG.match(words[0]) and not _END.fullmatch(words[0]):
        command.model = words[0]
        words = words[1:]
    return words


def _other_program(words: list[str]) -> Problem | None:
    """What is wrong where another program is started than vLLM's server; its flags would be misread."""
    program = words[0] if words else ""
    if program in CONTAINERS:
        return Problem(f"{' '.join(words[:2])!r} starts a container", "what stands behind the image's name")
    if program in OTHERS:
        return Problem(f"{program!r} starts another engine than vLLM, which is not modelled", SERVERS)
    module = words[2] if words[1:2] == ["-m"] and len(words) > 2 else ""
    if _PYTHON.fullmatch(program) and not module.startswith(MODULES):
        return Problem(
            f"{' '.join(words[:3])!r} does not start vLLM, and no other engine is modelled", SERVERS
        )
    return None


def _next(words: list[str], command: ServeCommand) -> list[str]:
    """Read the flag in front, and give what follows it."""
    word, *behind = words
    if not _FLAG.match(word):
        command.problems.append(Problem(f"{word!r} belongs to no flag", "a flag such as --max-num-seqs 128"))
        return behind
    if level := _LEVEL.fullmatch(word):
        word = f"-O={level[1]}"
    written, equals, attached = word.partition("=")
    dashes = "--" if written.startswith("--") else "-"
    name, *part = written.removeprefix(dashes).split(".")
    flag, on = _flag(dashes, name)
    values, behind = ([attached], behind) if equals else _values(flag, behind)
    if flag is None:
        command.problems.append(_unknown(written))
    elif flag.values == "!" and values:
        switched = SWITCHES.get(values[0].lower())
        if switched is None:
            command.problems.append(
                Problem(f"{written}: {values[0]!r} is neither true nor false", "no value")
            )
        command.flags.append(StatedFlag(flag, written, tuple(values), on is bool(switched)))
    elif not values and flag.values in ("", "+"):
        command.problems.append(Problem(f"{written} has no value", "a value behind it"))
    elif flag.name == "model":
        command.model = values[0]
    else:
        keys = tuple(key.rstrip("+") for key in part)
        command.flags.append(StatedFlag(flag, written, tuple(values), on, keys))
    return behind


def _flag(dashes: str, name: str) -> tuple[Flag | None, bool]:
    """The flag of a name, and whether the name turns it on."""
    if dashes == "-":
        return FLAGS.get(SHORT.get(name, "")), True
    name = name.replace("_", "-")
    flag = FLAGS.get(ALSO.get(name, name))
    if flag is None and name.startswith("no-"):
        flag = FLAGS.get(name.removeprefix("no-"))
        return (flag if flag is not None and flag.values == "!" else None), False
    return flag, True


def _values(flag: Flag | None, words: list[str]) -> tuple[list[str], list[str]]:
    """The values in front of what follows."""
    held = next(
        (at for at, word in enumerate(words) if _FLAG.match(word) or _END.fullmatch(word)), len(words)
    )
    if flag is not None and flag.values in ("", "?"):
        held = min(held, 1)
    if flag is not None and flag.values == "!":
        held = 1 if held and words[0].lower() in SWITCHES else 0
    return words[:held], words[held:]


def _unknown(written: str) -> Problem:
    name = written.lstrip("-").replace("_", "-")
    if written.startswith("--") and name in SHORT:
        return Problem(f"{written} is no flag of vllm serve", suggestion=f"-{name}")
    negated = name.startswith("no-")
    known = [f"no-{flag.name}" for flag in FLAGS.values() if flag.values == "!"] if negated else list(FLAGS)
    found = closest(name, known)
    short = not written.startswith("--") and not found
    expected = f"a flag of one dash such as {', '.join(f'-{each}' for each in ('tp', 'pp', 'dp', 'q'))}"
    return Problem(
        f"{written} is no flag of vllm serve", expected if short else "", f"--{found}" if found else ""
    )
