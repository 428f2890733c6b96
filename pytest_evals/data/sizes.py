"""How much text each row holds, which is what is known of a document's cost before it
is rendered."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Sizes = NDArray[np.int64]
    """(N,) bytes of text."""


def row_sizes(rows: Iterable[Mapping[str, Any]]) -> list[int]:
    """Bytes of text in each row, however deep."""
    return [_bytes(row) for row in rows]


def _bytes(value: Any) -> int:
    if isinstance(value, str):
        return len(value.encode("utf-8", "surrogatepass"))
    if isinstance(value, Mapping):
        return sum(map(_bytes, value.values()))
    if isinstance(value, list | tuple):
        return sum(map(_bytes, value))
    return 0


def arrow_sizes(table: Any) -> list[int]:
    """Bytes of text in each row of a ``pyarrow.Table``, without making Python
    objects of them."""
    import numpy as np

    total = np.zeros(table.num_rows, dtype=np.int64)
    for column in table.columns:
        start = 0
        for chunk in column.chunks:
            total[start : start + len(chunk)] += _lengths(chunk)
            start += len(chunk)
    sizes: list[int] = total.tolist()
    return sizes


def _lengths(array: Any) -> Sizes:
    """Bytes of text in each value of an arrow array; what they are is not looked at."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = array.type
    none = np.zeros(len(array), dtype=np.int64)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        found = pc.fill_null(pc.binary_length(array), 0)
        lengths: Sizes = found.to_numpy(zero_copy_only=False).astype(np.int64)
        return lengths
    if pa.types.is_struct(kind):
        return sum(map(_lengths, array.flatten()), start=none)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        parents = pc.list_parent_indices(array).to_numpy(zero_copy_only=False)
        below = _lengths(pc.list_flatten(array))
        return np.bincount(parents, below, minlength=len(array)).astype(np.int64)
    return none
