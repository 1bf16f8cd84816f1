from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class HeldBytes(TorchDispatchMode):  # type: ignore[misc]  # torch is untyped here
    """Counts the bytes of the tensors that calls inside a with block make and hold, for devices that do not count.

    What a kernel holds only while it runs is not seen.

    Attributes:
        most: largest number of bytes held at once.
    """

    def __init__(self) -> None:
        super().__init__()
        self.most = 0
        self._held: dict[int, int] = {}

    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Run a kernel and note what it has made."""
        found = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(found):
            if isinstance(tensor, torch.Tensor):
                self._note(tensor.untyped_storage())
        return found

    def _note(self, storage: Any) -> None:
        address = storage.data_ptr()
        if address not in self._held:
            self._held[address] = storage.nbytes()
            self.most = max(self.most, sum(self._held.values()))
            weakref.finalize(storage, self._held.pop, address, None)
