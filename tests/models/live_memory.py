"""Peak bytes of live tensors, measured at each operation of PyTorch."""

from __future__ import annotations

import weakref

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class LiveMemory(TorchDispatchMode):
    """Counts the storages that are created inside the context and still referenced."""

    def __init__(self) -> None:
        super().__init__()
        self.peak = 0
        self._live: dict[int, int] = {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        found = func(*args, **(kwargs or {}))
        inputs = {_key(t) for t in tree_leaves((args, kwargs)) if _is_tensor(t)}
        for tensor in tree_leaves(found):
            if _is_tensor(tensor) and _key(tensor) not in inputs | self._live.keys():
                storage, key = tensor.untyped_storage(), _key(tensor)
                self._live[key] = storage.nbytes()
                weakref.finalize(storage, self._live.pop, key, None)
        self.peak = max(self.peak, sum(self._live.values()))
        return found


def _is_tensor(value) -> bool:
    return isinstance(value, torch.Tensor)


def _key(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage()._cdata
