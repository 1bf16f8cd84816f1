"""What options state; what is wrong with it is a fault of the option."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from capsim.catalog import Gpu, Model, load_gpu, load_model
from capsim.catalog.loader import is_path
from capsim.errors import BadInput, Fault

_Entry = TypeVar("_Entry", Model, Gpu)


def stated_model(name: str) -> Model:
    """The model that ``--model`` names, see `capsim.catalog.load_model`.

    Raises:
        BadInput: no such model, or its file is at fault.
    """
    return _stated("--model", name, load_model)


def stated_gpu(name: str, option: str = "--gpu") -> Gpu:
    """The GPU that an option names, see `capsim.catalog.load_gpu`.

    Raises:
        BadInput: no such GPU, or its file is at fault.
    """
    return _stated(option, name, load_gpu)


def check_ranks(model: Model, ranks: int) -> None:
    """Refuse ``--tp`` ranks whose shares of the model would be unequal.

    Raises:
        BadInput: with the numbers that would do.
    """
    try:
        model.check_splits_over(ranks)
    except BadInput as error:
        fitting = [str(each) for each in range(1, model.attention_heads + 1) if model.splits_over(each)]
        raise BadInput(Fault("--tp", str(error), "", f"one of {', '.join(fitting)}")) from error


def stated_values(option: str, texts: Sequence[str]) -> dict[str, str]:
    """The ``NAME=VALUE`` of an option that may be repeated.

    Raises:
        BadInput: every text that is none.
    """
    pairs = [text.partition("=") for text in texts]
    faults = [
        Fault(option, f"{name!r}", "", "NAME=VALUE") for name, equals, _ in pairs if not (name and equals)
    ]
    if faults:
        raise BadInput(*faults)
    return {name: value for name, _, value in pairs}


def _stated(option: str, name: str, load: Callable[[str], _Entry]) -> _Entry:
    """The entry; a fault of a file keeps the file's place."""
    try:
        return load(name)
    except BadInput as error:
        if is_path(name):
            raise
        faults = (replace(fault, source=option) for fault in error.faults if isinstance(fault, Fault))
        raise BadInput(*faults) from error
