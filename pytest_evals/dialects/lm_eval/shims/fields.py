"""Values of a document by the keys of a task class's configuration (lm-eval 0.4.13,
``api/task.py``, ``doc_to_text`` etc.)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from pytest_evals.dialects.lm_eval.prompts.question import number_or_list
from pytest_evals.errors import Place
from pytest_evals.prompts.fields import (
    Field,
    bind,
    list_of_text,
    number_or_text,
    target_of_text,
    text_itself,
)


def field_of(task: Any, key: str, spec: Any) -> Field:
    """A key for error messages; its place is the file of the class."""
    file = getattr(sys.modules.get(type(task).__module__), "__file__", None)
    return Field(key=key, spec=spec, place=Place(Path(file or "task.py")))


def value_of(
    task: Any, key: str, doc: Any, given: Any, columns: Collection[str] | None
) -> Any:
    """Evaluate a key such as ``doc_to_text`` for a document.

    Args:
        given: Column, template, function or value; ``None`` for the configuration's.
        columns: Column names; ``None`` for the document's keys.

    Raises:
        FieldError: Evaluation fails.
        NotImplementedError: The class has neither the key nor a method of its name.
    """
    spec = getattr(task.config, key) if given is None else given
    if spec is None:
        what = f"{type(task).__name__} has neither a method {key} nor a config key of"
        raise NotImplementedError(f"{what} that name")
    return bind(field_of(task, key, spec), columns, _converter(task, key))(doc)


def _converter(task: Any, key: str) -> Callable[[str], Any]:
    """Conversion of the rendered string."""
    digits = task.config.doc_to_choice is not None
    if key in ("doc_to_choice", "doc_to_image", "doc_to_audio"):
        return list_of_text
    if key == "doc_to_text":
        return number_or_text if digits else text_itself
    if key == "doc_to_target":
        return number_or_list if digits else target_of_text
    return text_itself
