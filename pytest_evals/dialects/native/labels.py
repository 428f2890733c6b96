"""Reads human labels of a judge: a JSONL file with ``id``, ``label`` and, so that old
labels are detected, the ``response`` that was labelled."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Any

from pytest_evals.core.metric import HumanLabel, HumanLabels
from pytest_evals.core.node_names import document_id
from pytest_evals.data.user_files import read_text
from pytest_evals.dialects.native.parts import Scorer
from pytest_evals.errors import (
    DocumentError,
    Place,
    Problem,
    TaskFileError,
    unknown_name,
)
from pytest_evals.scorers.rubric import RubricScorer

_MOST_SHOWN = 10
_MOST_GRADES = 10  # a scale with more grades is reported as pass and fail
_FIX = '{"id": "reset", "label": true, "response": "the labelled answer"}'


def with_labels(scorer: Scorer, place: Place) -> Scorer:
    """A judge with its labels; any other scorer, and one that names no file, itself.
    ``place``: where it is defined; its file is next to the eval. Raises TaskFileError
    with all problems of the file."""
    if not isinstance(scorer, RubricScorer) or not scorer.labels_file:
        return scorer
    path = place.path.parent / scorer.labels_file
    if not os.path.isfile(path):
        message = f"judge: labels: no file {str(scorer.labels_file)!r}"
        fix = f"write a line for each label: {_FIX}"
        raise TaskFileError([Problem(message, place, fix)])
    text = read_text(path)
    problems: list[Problem] = []
    by_id: dict[str, HumanLabel] = {}
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            id_, label = _label(line, number, scorer)
            if id_ in by_id:
                first = by_id[id_].line
                message = f"{id_!r} already has a label in line {first}"
                raise DocumentError(f"{message}\nkeep one label for each case")
        except DocumentError as error:
            message, _, fix = str(error).partition("\n")
            problems.append(Problem(message, Place(path, number), fix or _FIX))
            continue
        by_id[id_] = label
    if not by_id and not problems:
        problems.append(Problem("the file has no labels", Place(path), _FIX))
    if problems:
        raise TaskFileError(_shortened(problems))
    scale = scorer.scale
    few = scale is not None and scale[1] - scale[0] < _MOST_GRADES
    labels = HumanLabels(
        by_id=by_id,
        sampled=scorer.sampled,
        place=Place(path),
        threshold=scorer.threshold,
        scale=scale if few and not scorer.criteria else None,
    )
    return replace(scorer, labels=labels)


def check_ids(labels: HumanLabels, ids: Collection[str]) -> None:
    """Check that each label belongs to a case. Raises TaskFileError with the labels
    that do not."""
    known = {*ids}
    problems = [
        Problem(
            unknown_name("case", id_, ids),
            Place(labels.place.path, label.line),
            "correct the id, or remove the line",
        )
        for id_, label in labels.by_id.items()
        if id_ not in known
    ]
    if problems:
        raise TaskFileError(_shortened(problems))


def _label(line: str, number: int, scorer: RubricScorer) -> tuple[str, HumanLabel]:
    try:
        row: Any = json.loads(line)
    except (RecursionError, ValueError) as error:
        raise DocumentError(f"invalid JSON: {error}") from None
    if not isinstance(row, dict):
        raise DocumentError("a line must be a JSON object")
    id_ = row.get("id")
    if isinstance(id_, bool) or not isinstance(id_, int | str) or not str(id_).strip():
        raise DocumentError(f"id is {id_!r}, not the id of a case")
    if row.get("label") in (None, ""):
        raise DocumentError(f"{id_!r} has no label\nlabel every case of the sample")
    response = row.get("response", row.get("answer"))
    if response is not None and not isinstance(response, str):
        raise DocumentError(f"{id_!r}: response is not text")
    try:
        value = scorer.rating(row["label"])
    except DocumentError as error:
        raise DocumentError(f"{id_!r}: label {error}") from None
    return document_id(str(id_)), HumanLabel(value, response, number)


def _shortened(problems: list[Problem]) -> Iterator[Problem]:
    yield from problems[:_MOST_SHOWN]
    if more := problems[_MOST_SHOWN:]:
        yield replace(more[0], message=f"{more[0].message} (and {len(more) - 1} more)")
