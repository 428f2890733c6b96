"""Rows of a split: their ids and sizes, and the selection to run.

Rows are converted to Python objects in blocks on first access; ids are read from their
column only. The cost of a session therefore depends on the selected documents, not on
the size of the dataset.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_evals.core.node_names import document_id
from pytest_evals.core.response_contract import described
from pytest_evals.core.task import TaskOptions
from pytest_evals.errors import DocumentError, EvalsError, abbreviated

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Sizes = NDArray[np.int64]
    """(N,) bytes of text."""

_BLOCK = 512  # rows that are converted at once
_KEPT_BLOCKS = 64
"""Blocks of a dataset that are kept: enough for two windows of documents."""
_MOST_CONVERSIONS = 3
"""Conversions of each block, on average, after which all blocks are kept: rows are then
read at random. Rows are read once or twice in order."""
_BLOCK_OF_IMAGES = 16
"""Rows with images that are converted at once; only one such block is kept."""
_ID_COLUMNS = (
    "id", "ID", "Id", "_id", "doc_id", "question_id", "questionId", "qid", "example_id",
    "sample_id", "task_id", "uid", "uuid", "guid",
)  # fmt: skip


class EncodingError(DocumentError):
    """Rows with text that is not UTF-8."""


class RowsError(EvalsError):
    """The value is not a sequence of rows."""


class Table(Sequence[Mapping[str, Any]]):
    """Rows by position, each a dict. Of a dataset on disk only the blocks that were
    read last are kept."""

    def __init__(self, rows: Any) -> None:
        """Create a table from a dataset of the ``datasets`` library or an iterable of
        mappings. Raises RowsError if it is neither."""
        self._blocks: dict[int, list[dict[str, Any]]] = {}
        self._dataset: Any = None
        self._block, self._n_kept = _BLOCK, _KEPT_BLOCKS
        self._n_conversions = 0
        if hasattr(rows, "select_columns") and hasattr(rows, "__len__"):
            self._dataset = rows
            self._length = len(rows)
            self.columns = tuple(rows.features)
            if "Image(" in repr(rows.features):
                self._block, self._n_kept = _BLOCK_OF_IMAGES, 1
            return
        if isinstance(rows, str | bytes | Mapping) or not isinstance(rows, Iterable):
            raise RowsError(f"rows must be a list of mappings, not {_short(rows)}")
        listed = [_as_dict(row, number) for number, row in enumerate(rows)]
        self._length = len(listed)
        self.columns = tuple(listed[0]) if listed else ()
        for start in range(0, len(listed), _BLOCK):
            self._blocks[start // _BLOCK] = listed[start : start + _BLOCK]

    @property
    def in_memory(self) -> bool:
        """Return whether all rows are Python objects."""
        return self._dataset is None

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return (self._row(i) for i in range(self._length))

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self._row(i) for i in range(*index.indices(self._length))]
        if not -self._length <= index < self._length:
            raise IndexError(f"row {index} of {self._length}")
        return self._row(index % self._length)

    def column(self, name: str) -> list[Any]:
        """Return all values of a column."""
        if self._dataset is None:
            return [row.get(name) for row in self]
        try:
            return list(self._dataset.select_columns([name])[:][name])
        except UnicodeDecodeError:
            raise EncodingError(f"the column {name!r} is not UTF-8") from None

    def sizes(self) -> list[int]:
        """Return the bytes of text in each row."""
        if self._dataset is None:
            return row_sizes(self)
        return arrow_sizes(self._dataset.with_format("arrow")[:])

    def _row(self, index: int) -> dict[str, Any]:
        number, offset = divmod(index, self._block)
        block = self._blocks.get(number)
        if block is None:
            start, end = number * self._block, (number + 1) * self._block
            try:
                columns = self._dataset[start:end]
            except UnicodeDecodeError:
                message = f"a row from {start} to {end - 1} is not UTF-8"
                raise EncodingError(message) from None
            self._make_room()
            values = zip(*columns.values(), strict=True)
            block = [dict(zip(columns, row, strict=True)) for row in values]
            self._blocks[number] = block
        return block[offset]

    def _make_room(self) -> None:
        """Forget the oldest block if there are too many."""
        self._n_conversions += 1
        n_blocks = -(-self._length // self._block)
        is_random = self._n_conversions > _MOST_CONVERSIONS * n_blocks
        if self._n_kept > 1 and is_random:
            return
        while len(self._blocks) >= self._n_kept:
            del self._blocks[next(iter(self._blocks))]


def _as_dict(row: Any, number: int) -> dict[str, Any]:
    if not isinstance(row, Mapping):
        message = f"row {number} must be a mapping of columns to values"
        raise RowsError(f"{message}, not {_short(row)}")
    for name in row:
        if not isinstance(name, str):
            message = f"row {number} has a column whose name is not text"
            raise RowsError(f"{message}: {described(name)}")
    return dict(row)


class Ids(NamedTuple):
    """An id for each row; ``warnings`` explain why an id column is not used."""

    ids: list[str]
    warnings: tuple[str, ...]


def document_ids(table: Table) -> Ids:
    """Return a unique id for each row, valid in node ids: the value of its id column,
    else its position. An id column is used if each value is a non-empty string or an
    integer and all remain distinct after :func:`document_id`."""
    warnings = []
    for name in _ID_COLUMNS:
        if name in table.columns:
            values = table.column(name)
            ids = [_clean(value) for value in values]
            if all(ids) and len(set(ids)) == len(ids):
                return Ids(ids, ())
            error = _id_error(values, ids)
            warning = (
                f"the column {name!r} cannot be used as ids, so rows are "
                "numbered from 0"
            )
            warnings.append(f"{warning}: {error}")
    return Ids([str(i) for i in range(len(table))], tuple(warnings))


def _id_error(values: list[Any], ids: list[str]) -> str:
    """Return why a column is not used: the first invalid or duplicate value."""
    seen: dict[str, int] = {}
    for row, cleaned in enumerate(ids):
        shown = _short(values[row])
        if not cleaned:
            is_empty = isinstance(values[row], str)
            message = "empty" if is_empty else "neither a string nor an integer"
            return f"row {row} has {shown}, which is {message}"
        if cleaned in seen:
            first = _short(values[seen[cleaned]])
            if values[seen[cleaned]] == values[row]:
                return f"rows {seen[cleaned]} and {row} both have {shown}"
            both = f"{first} and {shown} of rows {seen[cleaned]} and {row}"
            return f"{both} both become {_short(cleaned)}"
        seen[cleaned] = row
    raise AssertionError("distinct, non-empty ids have no error")


def _short(value: Any) -> str:
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - a method of somebody else's class
        text = f"a {type(value).__name__}"
    return abbreviated(text, 80)


def selection(
    total: int, limit: float | None, sample: float | None, seed: int
) -> Sequence[int]:
    """Return the positions of the documents to run, ascending. ``limit``: number of
    first documents, or a fraction below 1, rounded up (lm-eval 0.4.13,
    ``evaluator_utils.py``, ``get_sample_size``); ``None`` for all. ``sample``: as
    ``limit``, but drawn at random after the limit. A smaller sample is a subset of a
    larger one with the same seed."""
    first = range(_count(total, limit))
    if sample is None:
        return first
    order = list(first)
    Random(seed).shuffle(order)
    return sorted(order[: _count(len(order), sample)])


def _count(total: int, fraction_or_count: float | None) -> int:
    if fraction_or_count is None:
        return total
    if fraction_or_count < 1:
        return min(total, math.ceil(total * fraction_or_count))
    return min(total, int(fraction_or_count))


class SelectedRows(ABC):
    """The documents to run (:class:`~pytest_evals.core.task.SizedRows`), loaded when
    they are first needed. Subclasses load them."""

    def __init__(self, options: TaskOptions) -> None:
        self._options = options

    @property
    @abstractmethod
    def positions(self) -> Sequence[int]:
        """Positions of the task's documents in the whole dataset."""

    @abstractmethod
    def _load_ids(self) -> Ids:
        """An id for each position of the whole dataset."""

    @abstractmethod
    def _sizes_of(self, indices: Sequence[int]) -> Sequence[int]:
        """Bytes of text at these positions."""

    def ids(self) -> Sequence[str]:
        """Unique ids of the documents to run."""
        return [self._document_ids.ids[n] for n in self._selected]

    def indices(self) -> Sequence[int]:
        """Their positions in the whole dataset."""
        return self._selected

    def total(self) -> int:
        """Number of documents before the session's limit or sample."""
        return len(self.positions)

    def sizes(self) -> Sequence[int]:
        """Bytes of text of the documents to run."""
        return self._sizes_of(self._selected)

    def id(self, index: int) -> str:
        """The id of the document at a position."""
        return self._document_ids.ids[index]

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about ids, once they were read."""
        return self._document_ids.warnings if "_document_ids" in vars(self) else ()

    @cached_property
    def _document_ids(self) -> Ids:
        return self._load_ids()

    @cached_property
    def _selected(self) -> Sequence[int]:
        options, rows = self._options, self.positions
        selected = selection(len(rows), options.limit, options.sample, options.seed)
        return [rows[n] for n in selected]


def _clean(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int):
        return ""
    return document_id(str(value))


def row_sizes(rows: Iterable[Mapping[str, Any]]) -> list[int]:
    """Return the bytes of text in each row, including nested values."""
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
    """Return the bytes of text in each row of a ``pyarrow.Table``, without creating
    Python objects."""
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
    """Return the bytes of each text of an arrow array, without reading the texts."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = array.type
    none = np.zeros(len(array), dtype=np.int64)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        lengths_ = pc.fill_null(pc.binary_length(array), 0)
        lengths: Sizes = lengths_.to_numpy(zero_copy_only=False).astype(np.int64)
        return lengths
    if pa.types.is_struct(kind):
        return sum(map(_lengths, array.flatten()), start=none)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        parents = pc.list_parent_indices(array).to_numpy(zero_copy_only=False)
        below = _lengths(pc.list_flatten(array))
        return np.bincount(parents, below, minlength=len(array)).astype(np.int64)
    return none
