"""Prompt of a document and its few-shot examples: plain text or chat messages.

Equals lighteval 0.13.0, ``tasks/prompt_manager.py``: the instruction occurs once at the
start, as a paragraph of plain text and without separator in a chat. If a query begins
with its instruction, the instruction is removed from the query.
"""

from __future__ import annotations

from pytest_evals.core.doc import Doc
from pytest_evals.core.request import Message, Prompt
from pytest_evals.errors import DocumentError

_BETWEEN = "\n\n"


def prompt_of(
    doc: Doc, system: str | None, *, as_chat: bool, multiturn: bool
) -> Prompt:
    """The prompt of a document; always a chat without few-shot examples if it has
    images.

    Args:
        as_chat: Messages instead of plain text.
        multiturn: In a chat, one pair of messages for each few-shot example; otherwise
            everything but the system prompt is one message.
    """
    if doc.images:
        return _of_images(doc, system)
    if not as_chat:
        return plain(doc, system)
    if multiturn:
        return chat(doc, system)
    front = [Message("system", system)] if system is not None else []
    return (*front, Message("user", plain(doc, None)))


def plain(doc: Doc, system: str | None) -> str:
    """The prompt as plain text."""
    parts = [text for text in (system, doc.instruction) if text is not None]
    parts += [f"{_query(shot)} {_answer(shot).strip()}" for shot in doc.fewshot_samples]
    return _BETWEEN.join([*parts, _query(doc)])


def chat(doc: Doc, system: str | None) -> tuple[Message, ...]:
    """The prompt as messages; the last one is the user's."""
    messages = [Message("system", system)] if system is not None else []
    instruction = doc.instruction or ""
    for shot in doc.fewshot_samples:
        messages.append(Message("user", instruction + _query(shot)))
        messages.append(Message("assistant", _answer(shot)))
        instruction = ""
    return (*messages, Message("user", instruction + _query(doc)))


def _of_images(doc: Doc, system: str | None) -> tuple[Message, ...]:
    front = (system or "") + (doc.instruction or "")
    messages = [Message("system", front)] if front else []
    return (*messages, Message("user", _query(doc)))


def _query(doc: Doc) -> str:
    if doc.instruction is None or not doc.query.startswith(doc.instruction):
        return doc.query
    return doc.query[len(doc.instruction) :].strip()


def _answer(shot: Doc) -> str:
    """The first correct answer of a few-shot example.

    Raises:
        DocumentError: It has none.
        IndexError: Its gold index is out of range.
    """
    golds = shot.get_golds()
    if not golds:
        raise DocumentError(
            "a few-shot example has no choices, so its answer is unknown"
        )
    if not isinstance(golds[0], str):
        what = (
            f"the answer of a few-shot example is {golds[0]!r:.80}; expected a string"
        )
        raise DocumentError(what)
    return golds[0]
