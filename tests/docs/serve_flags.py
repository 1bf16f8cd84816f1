"""The flags of ``vllm serve`` as Markdown, by what becomes of them in `engine.args`."""

from __future__ import annotations

from capsim.scenario.serve_flags import FLAGS, SHORT, Effect, Flag


def serve_flags() -> list[str]:
    """A table of the flags that say something about capacity, and a list of the others."""
    short = {name: f"-{each}" for each, name in SHORT.items()}
    lines = ["", "### Modelled", "", "| Flag | Short |", "| --- | --- |"]
    lines += [
        f"| `--{flag.name}` | {f'`{short[flag.name]}`' if flag.name in short else ''} |"
        for flag in _of(Effect.MODELLED)
    ]
    for effect, title in ((Effect.NOT_MODELLED, "Not modelled"), (Effect.REFUSED, "Refused")):
        lines += ["", f"### {title}", "", "| Why | Flags |", "| --- | --- |"]
        reasons = dict.fromkeys(flag.reason for flag in _of(effect))
        lines += [
            f"| {reason} | {_named([flag for flag in _of(effect) if flag.reason == reason])} |"
            for reason in reasons
        ]
    return [*lines, "", "### Without effect on capacity", "", _named(_of(Effect.IGNORED))]


def _of(effect: Effect) -> list[Flag]:
    return [flag for flag in FLAGS.values() if flag.effect is effect]


def _named(flags: list[Flag]) -> str:
    return ", ".join(f"`--{flag.name}`" for flag in flags)
