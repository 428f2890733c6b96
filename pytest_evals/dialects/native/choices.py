"""Evals with choices: log-probabilities of the choices, or generated answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pytest_evals.core.case import Case
from pytest_evals.core.doc import Doc
from pytest_evals.core.metric import Metric
from pytest_evals.core.record import Score
from pytest_evals.core.request import (
    Loglikelihood,
    Options,
    Prompt,
    Response,
    with_images,
)
from pytest_evals.core.task import Asked, TaskOptions
from pytest_evals.data.calls import FieldError
from pytest_evals.dialects.generative_choices import (
    GENERATE,
    LOGLIKELIHOOD,
    GeneratedChoices,
    is_generated,
)
from pytest_evals.dialects.metadata_keys import CHOICES
from pytest_evals.errors import DocumentError, EvalsError, Place, suggestion
from pytest_evals.prompts.fields import Field, Reader, bind, list_of_text, text_itself
from pytest_evals.scorers.choices import measure_choices
from pytest_evals.scorers.metric_value import score_of
from pytest_evals.scorers.metrics import default_metrics, metric

_TYPE = "multiple_choice"
WAYS = (GENERATE, LOGLIKELIHOOD)  # values of ``choices_by``
UNUSED = {
    "score": "remove it: choices are scored by acc and acc_norm",
    "generation": "remove it, and pass --evals-gen-kwargs",
    "repeats": "remove it",
}
"""Keys without effect on choices, and what to do."""


def bind_choices(given: Any, place: Place) -> Reader:
    """Return a function that reads the choices of a row. ``given``: a column, a
    template that renders a list, or a list of templates. Raises FieldError if it is
    something else, or a template is invalid."""
    if isinstance(given, str):
        field = Field(key="choices", spec=given, place=place)
        return bind(field, None, list_of_text)
    if not isinstance(given, list | tuple):
        message = "choices must be a template, a column or a list"
        raise FieldError(message, place, 'choices: "{{options}}"')
    fields = [Field(key="choices", spec=one, place=place) for one in given]
    readers = [bind(one, (), text_itself) for one in fields]
    return lambda row: [read(row) for read in readers]


def check_way(given: str, *, has_choices: bool) -> None:
    """Check ``choices_by``. Raises EvalsError if it is invalid, or set without
    choices."""
    if given not in ("", *WAYS):
        raise EvalsError(
            f"choices_by: unknown value {given!r}{suggestion(given, WAYS)}"
        )
    if given and not has_choices:
        raise EvalsError("choices_by is set without choices\n  fix: add choices")


def check_choices(cases: Sequence[Case], way: str, used: Sequence[str]) -> None:
    """Check that all or none of the cases have choices, and that arguments of the eval
    fit. ``way``: ``choices_by``. ``used``: arguments that are set. Raises EvalsError if
    they do not."""
    without = [n for n, one in enumerate(cases) if one.choices is None]
    has_choices = len(without) < len(cases)
    if without and has_choices:
        raise EvalsError(
            f"case {without[0]} has no choices, and others have\n"
            "  fix: define two evals, with and without choices"
        )
    for key in used if has_choices else ():
        if key in UNUSED:
            fix = UNUSED[key]
            raise EvalsError(f"{key} has no effect on choices\n  fix: {fix}")
    check_way(way, has_choices=has_choices)


class EvalChoices:
    """Requests, scores and metrics of an eval with choices."""

    def __init__(self, way: str, options: TaskOptions) -> None:
        """Choose between the two ways. ``way``: one of :data:`WAYS`, or empty for
        log-probabilities."""
        self._generated = (
            GeneratedChoices(options) if is_generated(options, way) else None
        )
        specs = default_metrics(_TYPE)
        self._names = [one.name for one in specs]
        iterations = options.bootstrap_iters
        self.metrics: tuple[Metric, ...] = tuple(
            metric(one, "none", _TYPE, False, iterations) for one in specs
        )
        self.config: Mapping[str, Any] = {CHOICES: LOGLIKELIHOOD, "output_type": _TYPE}
        if self._generated is not None:
            self.metrics = self._generated.metrics
            self.config = self._generated.config

    @property
    def warnings(self) -> Sequence[str]:
        """Warnings about the answers."""
        return self._generated.warnings if self._generated is not None else ()

    def asked(self, index: int, doc: Doc, prompt: Prompt, images: Options) -> Asked:
        """The document with its requests. ``images``: the options of requests with the
        images of the prompt. Raises DocumentError if the prompt cannot be answered by
        generation."""
        if self._generated is None:
            delimiter = _delimiter(prompt)
            requests = [Loglikelihood(prompt, delimiter + one) for one in doc.choices]
            return Asked(doc, tuple(with_images(one, images) for one in requests))
        if isinstance(prompt, str):
            return self._generated.asked(index, doc)
        *context, last = prompt
        if last.role != "user":
            raise DocumentError(
                f"the last message is the {last.role}'s, and choices are answered by "
                "generation\n  fix: end the prompt with a message of the user"
            )
        return self._generated.asked(index, doc, context, images)

    def scores(self, doc: Doc, responses: Sequence[Response]) -> tuple[Score, ...]:
        """The scores of a document. Raises DocumentError if a response is an error, or
        has no log-probability."""
        if self._generated is not None:
            return self._generated.scores(doc, responses[0])
        answered = [one.raise_for_error() for one in responses]
        pairs = tuple((one.logprob, bool(one.greedy)) for one in answered)
        values = measure_choices(doc, pairs, self._names)
        return tuple(score_of(one, "none", pairs, True) for one in values)


def _delimiter(prompt: Prompt) -> str:
    """The text between a prompt and a choice: empty after whitespace, and if the choice
    is a separate message of a chat."""
    if not isinstance(prompt, str):
        if prompt[-1].role != "assistant":
            return ""
        prompt = prompt[-1].content
    return "" if prompt[-1:].isspace() else " "
