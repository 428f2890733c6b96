"""References that generated answers are compared with."""

from __future__ import annotations

from pytest_evals.core.doc import Doc
from pytest_evals.errors import DocumentError


def references(doc: Doc) -> list[str]:
    """Return the references of a document, at least one.

    Raises:
        DocumentError: References are missing, or not strings.
    """
    if not doc.choices:
        raise DocumentError("the document has no references: choices is empty")
    golds = doc.get_golds()
    if not golds:
        raise DocumentError("the document has no references: gold_index is empty")
    for gold in golds:
        if not isinstance(gold, str):
            raise DocumentError(f"a reference must be a string, not {gold!r:.80}")
    return golds
