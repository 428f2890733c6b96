"""Documents of a stored run, for the report: a list entry and the details of each.

Output of models and datasets is treated as text.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from pytest_evals.core.dialogue import TESTED
from pytest_evals.core.request import IMAGES, LEADING_IMAGES, PLACED_IMAGES
from pytest_evals.core.returned import RETURNED
from pytest_evals.reports.escape import cut, tail
from pytest_evals.reports.html.baseline_documents import Before
from pytest_evals.reports.html.numbers import numbers_of
from pytest_evals.reports.html.prompt import (
    FewshotExamples,
    is_apart,
    parts_of,
    question_of,
)
from pytest_evals.reports.html.returned import indented, returned_fields
from pytest_evals.reports.html.sections import mapping
from pytest_evals.reports.html.thumbnails import Thumbnails
from pytest_evals.store.history import EarlierRun

TRUNCATED, REGRESSED, IMPROVED, CUT_OFF, LINE_IS_END = 1, 2, 4, 8, 16
"""Flags of a document: its prompt was truncated; it flipped from correct to wrong, or
from wrong to correct; an answer reached the token limit; its list entry shows the end
of the prompt, because the question cannot be separated."""
QUESTION, _ANSWER, _ANSWER_ELSEWHERE = 160, 80, 40
"""Maximum characters of the strings of a list entry."""
_END = 3 * QUESTION
"""The same for the end of a prompt, whose own end may be common to all documents."""
_STATES = {"errored": "e", "unscored": "u"}

Row = Mapping[str, Any]


class DocumentEntry(NamedTuple):
    """A document."""

    id: str
    state: str
    """``r`` correct, ``w`` wrong, ``s`` scored but neither correct nor wrong, ``e``
    errored, ``u`` unscored, ``x`` scored but in no metric."""
    flags: int  # bitwise sum of its flags
    question: str  # the question, on one line
    answer: str  # its first answer, on one line
    target: str  # the reference, on one line
    values: dict[str, float]  # value of each metric; other values are omitted
    numbers: dict[str, float]  # other numbers, such as the confidence
    others: list[tuple[str, str] | None]
    """State and answer in each of the other runs; ``None`` if it is not there."""
    whole: dict[str, Any]  # all details, as JSON values
    doc: Any  # its row of the data


def documents_of(
    run: EarlierRun,
    task: str,
    shots: FewshotExamples,
    before: Before,
    others: Sequence[Before] = (),
    thumbnails: Thumbnails | None = None,
) -> Iterator[DocumentEntry]:
    """Yield the documents of a task in the order of its samples file.

    Raises:
        StoreError: The file cannot be read.
    """
    for _, rows in groupby(run.all_rows(task), lambda row: row["doc_id"]):
        yield _document(list(rows), shots, before, others, thumbnails or Thumbnails())


def _document(
    rows: Sequence[Row],
    shots: FewshotExamples,
    before: Before,
    others: Sequence[Before],
    thumbnails: Thumbnails,
) -> DocumentEntry:
    row = rows[0]
    prompts, asked = _requests(row, shots)
    _add_images(row, prompts, asked, thumbnails)
    was = before(row)
    correct = correct_choices(row, asked)
    whole = {
        "id": str(row["id"]),
        "doc_id": row["doc_id"],
        "status": str(row.get("status", "")),
        "error": str(row.get("error") or ""),
        "excluded": str(row.get("excluded") or ""),
        "correct": row.get("correct"),
        "prompts": prompts,
        "asked": asked,
        "answers": row.get("resps") or [],
        "finish": row.get("finish") or [],
        "returned": [
            pair
            for name in RETURNED
            for value in row.get(name) or ()
            for pair in returned_fields({name: value})
        ],
        "exchanges": [
            _exchange(one)
            for one in row.get("exchanges") or ()
            # The transcript has the answers of a conversation.
            if one.get("error") or not (row.get("messages") and _is_tested(one))
        ],
        "tokens": row.get("tokens") or {},
        "target": str(row.get("target", "")),
        "gold": correct,
        "scores": [_scores(one) for one in rows],
        "row": indented(row["doc"]) if row.get("doc") else "",
        "hashes": {
            name: str(row.get(f"{name}_hash", "")) for name in ("doc", "prompt")
        },
        "before": was,
    }
    said = [
        message
        for name, shown in whole["returned"]
        if name == "messages" and isinstance(shown, list)
        for message in shown
    ]
    _add_images_of_turns(row, said, thumbnails)
    turns = [{"title": one["role"], "text": one["text"]} for one in said]
    parts = prompts[0] if prompts else turns
    question = question_of(parts)
    is_end = bool(question) and not is_apart(parts, shots)
    line = tail(question, _END) if is_end else cut(question, QUESTION)
    target = " | ".join(asked[n]["text"].strip() for n in correct)
    return DocumentEntry(
        id=whole["id"],
        state=_state(row),
        flags=_flags(row, was) + LINE_IS_END * is_end,
        question=line,
        answer=cut(str(row.get("answer") or "").strip(), _ANSWER),
        target=cut(target or whole["target"].strip(), _ANSWER),
        values={key: v for one in rows for key, v in _values(one)},
        numbers=numbers_of(row, asked),
        others=[_elsewhere(was), *(_elsewhere(one(row)) for one in others)],
        whole=whole,
        doc=row.get("doc"),
    )


def _state(row: Row) -> str:
    known = _STATES.get(str(row.get("status")))
    if known:
        return known
    if row.get("excluded"):
        return "x"
    return {True: "r", False: "w", None: "s"}.get(row.get("correct"), "s")


def _flags(row: Row, was: Mapping[str, Any] | None) -> int:
    tokens = row.get("tokens")
    truncated = isinstance(tokens, dict) and bool(tokens.get("truncated"))
    flags = TRUNCATED * truncated + CUT_OFF * ("length" in (row.get("finish") or ()))
    if was is not None:
        change = was.get("correct"), row.get("correct")
        flags += REGRESSED * (change == (True, False))
        flags += IMPROVED * (change == (False, True))
    return flags


def _requests(
    row: Row, shots: FewshotExamples
) -> tuple[list[list[dict[str, str]]], list[dict[str, Any]]]:
    """Return the distinct prompts in parts, and each request with the index of its
    prompt."""
    arguments = row.get("arguments")
    prompts: dict[str, int] = {}
    parts: list[list[dict[str, str]]] = []
    asked = []
    for one in arguments.values() if isinstance(arguments, dict) else ():
        given = one.get("arg_0", "")
        key = given if isinstance(given, str) else json.dumps(given)
        if key not in prompts:
            prompts[key] = len(parts)
            parts.append(parts_of(given, shots))
        request: dict[str, Any] = {"prompt": prompts[key]}
        second = one.get("arg_1")
        if isinstance(second, str):
            request |= {"kind": "choice", "text": second}
        elif isinstance(second, dict):
            request |= {"kind": "text", "settings": json.dumps(second)}
        else:
            request["kind"] = "rolling"
        asked.append(request)
    return parts, asked


def _add_images(
    row: Row,
    prompts: Sequence[Sequence[dict[str, Any]]],
    asked: Sequence[Mapping[str, Any]],
    thumbnails: Thumbnails,
) -> None:
    """Add images to the messages that contain them, and their names to the text."""
    seen: set[int] = set()
    for request, one in zip(asked, mapping(row.get("arguments")).values(), strict=True):
        shown = mapping(one.get("arg_2", one.get("arg_1")))
        images = shown.get(PLACED_IMAGES, ())
        of_rows = [*shown.get(LEADING_IMAGES, ()), *shown.get(IMAGES, ())]
        if request["prompt"] in seen or not (images or of_rows):
            continue
        seen.add(request["prompt"])
        parts = prompts[request["prompt"]]
        small = mapping(row.get("thumbnails"))
        for digest in of_rows:
            found = {"name": f"image {digest[:12]}", "src": small.get(digest, "")}
            parts[-1].setdefault("images", []).append(found)
        for image in reversed(images):
            part = parts[image["message"]]
            name = str(image.get("path") or f"image {image['sha256'][:12]}")
            at, text = image["at"], part["text"]
            part["text"] = f"{text[:at]}\n[{name}]\n{text[at:]}".strip("\n")
            src = thumbnails.of(image)
            part.setdefault("images", []).insert(0, {"name": name, "src": src})


def _add_images_of_turns(
    row: Row, messages: Sequence[Mapping[str, Any]], thumbnails: Thumbnails
) -> None:
    """Add small images to the messages of a conversation, which have their names."""
    placed = {
        str(image.get("path") or image["sha256"][:8]): image
        for one in row.get("exchanges") or ()
        if _is_tested(one)
        for image in mapping(one["arguments"].get("arg_1")).get(PLACED_IMAGES, ())
    }
    for image in (image for one in messages for image in one["images"]):
        image["src"] = thumbnails.of(placed.get(image["name"], {}))


def _is_tested(exchange: Row) -> bool:
    return exchange.get("model") in TESTED


def _exchange(one: Row) -> dict[str, Any]:
    arguments = one.get("arguments") or {}
    return {
        "model": str(one.get("model", "")),
        "parts": parts_of(arguments.get("arg_0", ""), FewshotExamples(0, "")),
        "answer": one.get("resp"),
        "error": str(one.get("error") or ""),
        "returned": returned_fields(one),
    }


def correct_choices(row: Row, asked: Sequence[Mapping[str, Any]]) -> list[int]:
    """Return the positions of the correct choices among the requests.

    Runs of other programs and versions have only the target: the text of a choice or
    its position.
    """
    texts = {
        n: str(one["text"]).strip()
        for n, one in enumerate(asked)
        if one["kind"] == "choice"
    }
    gold = row.get("gold")
    if isinstance(gold, list):
        return [n for n in gold if n in texts]
    target = str(row.get("target", "")).strip()
    same = [n for n, text in texts.items() if text == target]
    if target.isdecimal() and len(target) <= len(str(len(asked))):
        at = int(target)
        if at in texts and not (same and _agrees(row, same, texts)):
            return [at]
    return same


def _agrees(row: Row, gold: Sequence[int], texts: Mapping[int, str]) -> bool:
    """Return whether these choices explain why the document is correct or wrong."""
    is_gold = str(row.get("answer", "")).strip() in {texts[n] for n in gold}
    return is_gold == row.get("correct")


def _elsewhere(found: Mapping[str, Any] | None) -> tuple[str, str] | None:
    if found is None:
        return None
    return _state(found), cut(str(found.get("answer", "")).strip(), _ANSWER_ELSEWHERE)


def _scores(row: Row) -> dict[str, Any]:
    explanations = row.get("explanations")
    return {
        "filter": str(row.get("filter", "none")),
        "answer": str(row.get("answer") or ""),
        "filtered": row.get("filtered_resps") or [],
        "values": {name: row.get(key) for name, key in _metrics(row)},
        "explanations": explanations if isinstance(explanations, dict) else {},
    }


def _metrics(row: Row) -> Iterator[tuple[str, str]]:
    for name in row.get("metrics") or ():
        key = f"{name},{row.get('filter')}"
        yield str(name), key if key in row else str(name)


def _values(row: Row) -> Iterator[tuple[str, float]]:
    for name, key in _metrics(row):
        value = row.get(key)
        if isinstance(value, int | float):
            yield f"{name},{row.get('filter')}", float(value)
