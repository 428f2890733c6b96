"""Multiple choice by generation (``--evals-choices=generate``): a task whose choices
are scored by log-probability becomes one whose answers name a choice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from pytest_evals.core.doc import Doc, as_list
from pytest_evals.core.group import Aggregate, Group
from pytest_evals.core.metric import Metric
from pytest_evals.core.record import Record, Score
from pytest_evals.core.task import Asked, Task, TaskOptions
from pytest_evals.dialects.metadata_keys import CHOICES
from pytest_evals.dialects.yaml_reader.section import Section
from pytest_evals.errors import Problem
from pytest_evals.prompts.generation import Sampling, read_sampling
from pytest_evals.prompts.lettered import QUESTION, lettered_prompt, question_of
from pytest_evals.scorers.aggregations import AGGREGATIONS, estimate
from pytest_evals.scorers.choice_answers import UNPARSABLE, select

GENERATE, LOGLIKELIHOOD = "generate", "loglikelihood"
MAX_TOKENS = 1024
"""Most new tokens of an answer, unless ``--evals-gen-kwargs`` sets another limit."""
_ACCURACY = "acc"
_ENOUGH = 10
"""Documents from which a warning about the position of the correct choice is shown."""


def is_generated(options: TaskOptions, given: object) -> bool:
    """Whether documents with choices are answered by generation.

    Args:
        options: Options of the session, which override the task's.
        given: The task's own setting.
    """
    return (options.choices or given) == GENERATE


def choices_of(top: Section, metadata: Mapping[str, Any]) -> str:
    """Return ``metadata.choices`` of a task file; an error is added to its problems."""
    given = metadata.get(CHOICES, "")
    if given not in ("", GENERATE, LOGLIKELIHOOD):
        what = f"choices must be {GENERATE} or {LOGLIKELIHOOD}, not {given!r:.60}"
        place = top.file.place("metadata", CHOICES)
        top.problems.append(Problem(what, place, f"metadata: {{choices: {GENERATE}}}"))
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
        rule
        if rule.filters is None
        else replace(rule, filters=(*rule.filters, GENERATE))
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
    stop = [] if options.chat else [QUESTION.strip()]
    given = {"until": stop, "max_gen_toks": MAX_TOKENS}
    sampling, warnings = read_sampling(given, options.gen_kwargs, "")
    runner = _Runner(task, options, sampling)
    left_out = [one.name for one in task.metrics if one.name != _ACCURACY]
    if left_out:
        listed = ", ".join(dict.fromkeys(left_out))
        warnings += (
            f"choices are answered by generation, without {listed}, computed from "
            "log-probabilities",
        )
    if task.repeats > 1:
        warnings += ("choices are answered by generation, without repeats",)
    return replace(
        task,
        ask=runner.ask,
        score=runner.score,
        metrics=(
            _metric(_ACCURACY, True, options.bootstrap_iters),
            _metric(UNPARSABLE, False, options.bootstrap_iters),
        ),
        metric_for=None,
        score_repeats=None,
        follow_up=None,
        models={},
        output_type="generate_until",
        repeats=1,
        config={
            **task.config,
            CHOICES: GENERATE,
            "output_type": "generate_until",
            "generation_kwargs": {**given, **options.gen_kwargs},
            "repeats": 1,
        },
        remedies={},
        warnings=lambda: (*task.warnings(), *warnings, *runner.warnings),
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


@dataclass(slots=True)
class _Runner:
    """Requests and scores of one task.

    Args:
        task: The task by log-probabilities.
        sampling: How answers are generated.
        golds: The correct choices of the documents that were built so far.
    """

    task: Task
    options: TaskOptions
    sampling: Sampling
    golds: dict[int, str] = field(default_factory=dict)

    @property
    def warnings(self) -> Sequence[str]:
        """A warning if the same label is correct in all documents."""
        counts = Counter(self.golds.values())
        if len(self.golds) < _ENOUGH or len(counts) > 1:
            return ()
        (label,) = counts
        return (
            f"the correct choice is {label} in all {len(self.golds)} documents, so a "
            "model that prefers it scores higher; shuffle the choices in the data",
        )

    def ask(self, index: int) -> Asked:
        """The document at a position, with the request for its answer."""
        doc = self.task.ask(index).doc
        question = question_of(doc)
        prompt = lettered_prompt(
            doc,
            question,
            self.options.system_instruction,
            chat=self.options.chat,
            multiturn=self.options.fewshot_as_multiturn,
        )
        golds = _golds(doc)
        self.golds[index] = ", ".join(question.labels[n] for n in golds)
        if golds:
            shown = [question.choice(n) for n in golds]
            doc = replace(doc, target=shown[0] if len(shown) == 1 else shown)
        return Asked(doc, self.sampling.requests(prompt, 1))

    def score(self, record: Record) -> tuple[Score, ...]:
        """Whether the answer names a correct choice, and whether it can be parsed."""
        doc, (response,) = record.doc, record.responses
        question = question_of(doc)
        answer = response.raise_for_error().text
        found = select(
            answer, question.labels, question.texts, self.options.reasoning_tags
        )
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
