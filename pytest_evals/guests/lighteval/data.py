"""Rows of a task's splits, and the documents that its prompt function builds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import index
from pathlib import Path
from typing import Any, NamedTuple

from pytest_evals.core.doc import Doc, as_list
from pytest_evals.data.calls import FieldError, call
from pytest_evals.data.rows import EncodingError, Table
from pytest_evals.data.source_paths import Source
from pytest_evals.data.sources import load, not_utf8
from pytest_evals.errors import Place, Problem, TaskFileError, did_you_mean

_FILE_BUILDERS = ("arrow", "csv", "json", "parquet", "text")
_POOLS = ("train", "dev", "valid", "default")
"""Substrings of the names of few-shot splits, in order of preference."""


class BuiltDocument(NamedTuple):
    """The result of the prompt function for one row.

    Args:
        number: Its position in the split, after ``hf_filter``.
        doc: The document, or the error if the function failed.
    """

    split: str
    number: int
    row: Mapping[str, Any]
    doc: Doc | FieldError


@dataclass(frozen=True, slots=True)
class Data:
    """The dataset of a task. ``base``: second folder for relative paths, after the
    module's own folder."""

    config: Any
    place: Place
    base: Path

    @property
    def source(self) -> Source:
        """Location of the rows."""
        config = self.config
        files = _plain(getattr(config, "hf_data_files", None))
        arguments = {"data_files": files, "revision": config.hf_revision}
        reads_files = config.hf_repo in _FILE_BUILDERS
        named = config.hf_subset or None
        return Source(
            path=config.hf_repo,
            name=None if reads_files and named == "default" else named,
            arguments={k: v for k, v in arguments.items() if v is not None},
            place=self.place,
            data_place=self.place,
            base=self.base,
        )

    def splits(self) -> Mapping[str, Any]:
        """All splits: name → rows."""
        return load(self.source, plain=True)

    def build(
        self, splits: Mapping[str, Any], split: str, shot: bool
    ) -> list[BuiltDocument]:
        """Call the prompt function for each row of a split; skipped rows are left out.

        Raises:
            TaskFileError: The split does not exist, or a row cannot be read or
                filtered.
        """
        if split not in splits:
            names = [str(name) for name in splits]
            message = f"the dataset has no split {split!r}{did_you_mean(split, names)}"
            fix = f"use one of its splits: {', '.join(names)}"
            raise TaskFileError([Problem(message, self.place, fix)])
        try:
            rows = list(self._filtered(Table(splits[split])))
        except EncodingError as error:
            raise not_utf8(self.source) from error
        except FieldError as error:
            raise TaskFileError([error.problem]) from error
        built = (self._build(split, index, row, shot) for index, row in enumerate(rows))
        return [document for document in built if document is not None]

    def _filtered(self, rows: Table) -> Iterator[Mapping[str, Any]]:
        keep = self.config.hf_filter
        for row in rows:
            if keep is None or call(keep, (_copied(row),), "hf_filter", self.place):
                yield row

    def _build(
        self, split: str, index: int, row: Mapping[str, Any], shot: bool
    ) -> BuiltDocument | None:
        line = {**_copied(row), "__few_shots": shot, "__index": index}
        function, name = self.config.prompt_function, self.config.name
        try:
            doc = call(function, (line, name), "prompt_function", self.place)
            if doc is None or doc == []:
                return None
            return BuiltDocument(split, index, row, self._checked(doc))
        except FieldError as error:
            return BuiltDocument(split, index, row, error)

    def _checked(self, doc: Any) -> Doc:
        if not isinstance(doc, Doc):
            names = [name for name in Doc.__dataclass_fields__ if hasattr(doc, name)]
            if not {"query", "choices", "gold_index"} <= set(names):
                raise self._fault(f"returned {doc!r:.80}, not a Doc")
            doc = Doc(**{name: getattr(doc, name) for name in names})
        if not isinstance(doc.query, str):
            message = f"returned a query that is not a string: {doc.query!r:.80}"
            raise self._fault(message)
        # Documents scored as a whole have neither (lighteval's wikitext.py).
        doc.choices = [] if doc.choices is None else doc.choices
        doc.gold_index = [] if doc.gold_index is None else doc.gold_index
        if not isinstance(doc.choices, list | tuple):
            message = f"returned choices that are not a list: {doc.choices!r:.80}"
            raise self._fault(message)
        if not all(map(_is_position, as_list(doc.gold_index))):
            message = (
                f"returned a gold_index that is not an index: {doc.gold_index!r:.80}"
            )
            raise self._fault(message)
        for key, (kinds, expected) in _FIELDS.items():
            value = getattr(doc, key)
            if value is not None and not isinstance(value, kinds):
                raise self._fault(
                    f"returned {key}={value!r:.80}; expected {expected} or None"
                )
        if not all(isinstance(one, str) for one in doc.stop_sequences or ()):
            message = f"returned stop_sequences={doc.stop_sequences!r:.80}"
            raise self._fault(f"{message}; expected a list of strings")
        doc.fewshot_samples = [self._checked(one) for one in doc.fewshot_samples or ()]
        doc.choices = list(doc.choices)
        checked: Doc = doc
        return checked

    def _fault(self, message: str) -> FieldError:
        return FieldError(f"prompt_function {message}", self.place)


def pool_split(config: Any, splits: Sequence[str] | None = None) -> str | None:
    """Name of the split with few-shot examples; ``None`` if all splits are
    evaluated. ``splits``: those of the dataset; ``None`` to rely on the task's list."""
    if config.few_shots_split:
        return str(config.few_shots_split)
    available = [
        name
        for name in config.hf_avail_splits or ()
        if name not in config.evaluation_splits and (splits is None or name in splits)
    ]
    found = (name for part in _POOLS for name in available if part in name)
    return next(found, None)


_FIELDS: Mapping[str, tuple[Any, str]] = {
    "instruction": (str, "a string"),
    "images": (list | tuple, "a list of images"),
    "specific": (Mapping, "a mapping"),
    "unconditioned_query": (str, "a string"),
    "fewshot_samples": (list | tuple, "a list of Docs"),
    "fewshot_sorting_class": (str | int | float | list | tuple, "a string"),
    "generation_size": (int, "a number of tokens"),
    "stop_sequences": (list | tuple, "a list of strings"),
}
"""Optional fields of documents: types and description."""


def _is_position(value: Any) -> bool:
    """Whether the value can index a list; NumPy integers can, too."""
    try:
        index(value)
    except TypeError:
        return False
    return True


def _plain(given: Any) -> Any:
    if isinstance(given, Mapping):
        return {key: _plain(value) for key, value in given.items()}
    if isinstance(given, list | tuple):
        return [str(one) for one in given]
    return None if given is None else str(given)


def _copied(value: Any) -> Any:
    """A deep copy, so that user functions cannot change a row that others read."""
    if isinstance(value, Mapping):
        return {key: _copied(inner) for key, inner in value.items()}
    return [_copied(inner) for inner in value] if isinstance(value, list) else value
