"""Multiple choice by generation (``--evals-choices=generate``): a task whose choices
are scored by log-probability becomes one whose answers name a choice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from pytest_evals.core.doc import Doc, as_list
from pytest_evals.core.metric import Metric
from pytest_evals.core.record import Score
from pytest_evals.core.request import (
    Message,
    Options,
    Prompt,
    Response,
    images_of,
    with_images,
)
from pytest_evals.core.task import Aggregate, Asked, Group, Task, TaskOptions
from pytest_evals.dialects.metadata_keys import CHOICES
from pytest_evals.dialects.yaml_reader.section import Section
from pytest_evals.errors import Problem
from pytest_evals.prompts.choice_letters import QUESTION, lettered_prompt, question_of
from pytest_evals.prompts.generation import read_sampling
from pytest_evals.scorers.aggregations import AGGREGATIONS, estimate
from pytest_evals.scorers.choice_answers import UNPARSABLE, select

GENERATE, LOGLIKELIHOOD = "generate", "loglikelihood"
MAX_TOKENS = 1024
"""Most new tokens of an answer, unless ``--evals-gen-kwargs`` sets another limit."""
_ACCURACY = "acc"
_ENOUGH = 10
"""Documents from which a warning about the position of the correct choice is shown."""


def is_generated(options: TaskOptions, given: object) -> bool:
    """Whether documents with choices are answered by generation. ``options``: options
    of the session, which override the task's. ``given``: the task's own setting."""
    return (options.choices or given) == GENERATE


def choices_of(top: Section, metadata: Mapping[str, Any]) -> str:
    """Return ``metadata.choices`` of a task file; an error is added to its problems."""
    given = metadata.get(CHOICES, "")
    if given not in ("", GENERATE, LOGLIKELIHOOD):
        message = f"choices must be {GENERATE} or {LOGLIKELIHOOD}, not {given!r:.60}"
        place = top.file.place("metadata", CHOICES)
        top.problems.append(
            Problem(message, place, f"metadata: {{choices: {GENERATE}}}")
        )
    return str(given)


def with_choices(
    loaded: Iterable[Task | Group], options: TaskOptions
) -> list[Task | Group]:
    """Return tasks and groups, with their choices answered as the options or the tasks
    themselves set it."""
    return [_variant(one, options) for one in loaded]


def _variant(one: Task | Group, options: TaskOptions) -> Task | Group:
    if isinstance(one, Task):
        return _task(one, options)
    children = tuple(_variant(child, options) for child in one.children)
    if all(new is old for new, old in zip(children, one.children, strict=True)):
        return one
    found = replace(one, children=children)
    return replace(found, aggregates=_aggregates(found)) if one.aggregates else found


def _aggregates(group: Group) -> tuple[Aggregate, ...]:
    """The group's metrics under the filter of generated choices, and the share of
    unparsable answers."""
    known = {metric.name for task in group.tasks() for metric in task.metrics}
    kept = [
        rule if (f := rule.filters) is None else replace(rule, filters=(*f, GENERATE))
        for rule in group.aggregates
        if rule.metric in known
    ]
    if any(rule.metric == UNPARSABLE for rule in kept):
        return tuple(kept)
    return (*kept, Aggregate(metric=UNPARSABLE, filters=(GENERATE,)))


def _task(task: Task, options: TaskOptions) -> Task:
    is_variant = is_generated(options, task.config.get(CHOICES))
    if task.output_type != "multiple_choice" or not is_variant:
        return task
    answers = GeneratedChoices(options)
    warnings: tuple[str, ...] = ()
    left_out = [one.name for one in task.metrics if one.name != _ACCURACY]
    if left_out:
        listed = ", ".join(dict.fromkeys(left_out))
        warnings += (
            f"choices are answered by generation, without {listed}, computed from "
            "log-probabilities",
        )
    if task.repeats > 1:
        warnings += ("choices are answered by generation, without repeats",)

    def ask(index: int) -> Asked:
        asked = task.ask(index)
        images = images_of(asked.requests[0]) if asked.requests else ()
        return answers.asked(index, asked.doc, images=images)

    return replace(
        task,
        ask=ask,
        score=lambda record: answers.scores(record.doc, record.responses[0]),
        metrics=answers.metrics,
        metric_for=None,
        score_repeats=None,
        follow_up=None,
        models={},
        output_type="generate_until",
        repeats=1,
        config={**task.config, **answers.config, "repeats": 1},
        remedies={},
        warnings=lambda: (*task.warnings(), *warnings, *answers.warnings),
    )


def _metric(name: str, higher_is_better: bool, iterations: int) -> Metric:
    return Metric(
        name=name,
        filter=GENERATE,
        aggregate=partial(estimate, AGGREGATIONS["mean"], name, iterations),
        higher_is_better=higher_is_better,
        is_mean=True,
        limits=(0.0, 1.0),
        closed=True,
    )


class GeneratedChoices:
    """Requests and scores of one task whose choices are answered by generation."""

    def __init__(self, options: TaskOptions) -> None:
        stop = [] if options.chat else [QUESTION.strip()]
        generation = {"until": stop, "max_gen_toks": MAX_TOKENS}
        self._options = options
        self._sampling, self._warnings = read_sampling(
            generation, options.gen_kwargs, ""
        )
        self._golds: dict[int, str] = {}
        """Position of a document → labels of its correct choices."""
        self.metrics = (
            _metric(_ACCURACY, True, options.bootstrap_iters),
            _metric(UNPARSABLE, False, options.bootstrap_iters),
        )
        self.config: Mapping[str, Any] = {
            CHOICES: GENERATE,
            "output_type": "generate_until",
            "generation_kwargs": {**generation, **options.gen_kwargs},
        }

    @property
    def warnings(self) -> Sequence[str]:
        """Warnings about sampling, and one if the same label is correct in all
        documents."""
        counts = Counter(self._golds.values())
        if len(self._golds) < _ENOUGH or len(counts) > 1:
            return self._warnings
        (label,) = counts
        return (
            *self._warnings,
            f"the correct choice is {label} in all {len(self._golds)} documents, so a "
            "model that prefers it scores higher; shuffle the choices in the data",
        )

    def asked(
        self,
        index: int,
        doc: Doc,
        context: Sequence[Message] | None = None,
        images: Options = (),
    ) -> Asked:
        """The document with the request for its answer. ``context``: messages before
        the question, in a chat without few-shot examples; by default the prompt depends
        on the options. ``images``: the options of requests with its images. Raises
        DocumentError if it has no choices, or one is not a string."""
        question, options = question_of(doc), self._options
        prompt: Prompt
        if context is not None:
            text = f"{question.text}\n\n{question.format}"
            prompt = (*context, Message("user", text))
        else:
            prompt = lettered_prompt(
                doc,
                question,
                options.system_instruction,
                chat=options.chat,
                multiturn=options.fewshot_as_multiturn,
            )
        golds = _golds(doc)
        self._golds[index] = ", ".join(question.labels[n] for n in golds)
        if golds:
            shown = [question.choice(n) for n in golds]
            doc = replace(doc, target=shown[0] if len(shown) == 1 else shown)
        requests = self._sampling.requests(prompt, 1)
        return Asked(doc, tuple(with_images(one, images) for one in requests))

    def scores(self, doc: Doc, response: Response) -> tuple[Score, ...]:
        """Whether the answer names a correct choice, and whether it can be parsed.
        Raises DocumentError if there is no answer."""
        question = question_of(doc)
        answer = response.raise_for_error().text
        tags = self._options.default_reasoning_tags
        found = select(answer, question.labels, question.texts, tags)
        golds = _golds(doc)
        chosen = "" if found.choice is None else question.choice(found.choice)
        correct = found.choice in golds
        why = found.fault and f"unparsable: {found.fault}"
        if not golds:
            why = f"the correct answer {doc.gold_index!r} is not among the choices"
        score = Score(
            metric=_ACCURACY,
            filter=GENERATE,
            value=float(correct),
            correct=correct,
            answer=chosen or answer.strip(),
            filtered=(chosen or None,),
            explanation=why,
        )
        unparsable = float(found.choice is None)
        return score, replace(score, metric=UNPARSABLE, value=unparsable, correct=None)


def _golds(doc: Doc) -> list[int]:
    return [one for one in as_list(doc.gold_index) if 0 <= one < len(doc.choices)]
