"""From the parts of an eval to a task."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from pytest_evals.core.dialogue import OWN_MODEL, USER, ModelSource
from pytest_evals.core.metric import ANYTHING, LEAST_LABELS, HumanLabels, Metric, Span
from pytest_evals.core.task import ModelUse, Task, TaskOptions
from pytest_evals.dialects.native.cases import CaseRows, EvalCases
from pytest_evals.dialects.native.labels import check_ids
from pytest_evals.dialects.native.parts import FILTER, EvalParts, Scorer
from pytest_evals.dialects.native.row_checks import check_rows, check_templates
from pytest_evals.dialects.native.runner import EvalRunner
from pytest_evals.errors import DocumentError, Problem, TaskFileError
from pytest_evals.scorers.aggregations import AGGREGATIONS, estimate
from pytest_evals.scorers.answers import AnswerScorer
from pytest_evals.scorers.model_scorer import JUDGE_NAME, ModelScorer
from pytest_evals.scorers.rubric import RubricScorer


def eval_task(parts: EvalParts, options: TaskOptions) -> Task:
    """Return the task of an eval."""
    scorers, models = _with_judges(parts.scorers)
    parts = replace(parts, scorers=scorers)
    if parts.user is not None:
        models[USER] = parts.user.source
    labelled, row_warnings = _labels(parts), list[str]()

    def load() -> EvalCases:
        place = parts.places.get(USER, parts.source)
        try:
            cases, found = _checked_cases(parts, labelled)
        except DocumentError as error:
            raise TaskFileError([Problem(f"{parts.name}: {error}", place)]) from None
        row_warnings.extend(found)
        return cases

    rows = CaseRows(load, options)
    runner = EvalRunner(parts, rows, options)
    if runner.own_model is not None:
        models[OWN_MODEL] = runner.own_model
    choices = runner.choices
    config = {
        "task": parts.name,
        "output_type": "generate_until",
        **parts.config,
        **(choices.config if choices else {}),
        "score": [{one.name: one.settings} for one in parts.scorers],
        "repeats": parts.repeats,
    }
    asks_more = bool(models) or parts.has_turns
    longest = partial(runner.follow_up, is_longest=True)
    score_repeats = partial(runner.score, keeps_repeats=True)
    return Task(
        name=parts.name,
        source=parts.source,
        rows=rows,
        ask=runner.ask,
        follow_up=runner.follow_up if asks_more else None,
        longest=longest if asks_more else None,
        models=models,
        model_uses=_model_uses(parts),
        asks_model=runner.own_model is None,
        shows_images=parts.shows_images and runner.own_model is None,
        sends_tools=parts.tools is not None and runner.own_model is None,
        score=runner.score,
        begin=runner.begin if runner.begins_early else None,
        score_repeats=score_repeats if parts.repeats > 1 else None,
        metrics=choices.metrics if choices else tuple(_metrics(parts.scorers, options)),
        gates=parts.gates,
        row_lines=parts.row_place.with_path if parts.row_place else None,
        output_type=config["output_type"],
        tags=parts.tags,
        version=parts.version,
        repeats=parts.repeats,
        refusals=parts.refusals,
        reasoning_tags=options.reasoning_tags,
        config=config,
        remedies=parts.remedies,
        warnings=lambda: (
            *parts.warnings,
            *_label_warnings(parts),
            *rows.warnings,
            *row_warnings,
            *(choices.warnings if choices else ()),
        ),
    )


def _model_uses(parts: EvalParts) -> dict[str, ModelUse]:
    """Name of an auxiliary model → the scorer that asks it, or the simulated user."""
    found = {USER: ModelUse(USER, parts.places.get(USER, parts.source))}
    for one in parts.scorers:
        if not isinstance(one, ModelScorer):
            continue
        place = parts.places.get(one.name, parts.source)
        for role in one.roles:
            use = found.setdefault(role, ModelUse(one.name, place))
            if one.images:
                found[role] = use._replace(shows_images=True)
    return found


def _labels(parts: EvalParts) -> list[HumanLabels]:
    found = [
        one.labels
        for one in parts.scorers
        if isinstance(one, RubricScorer) and one.labels is not None
    ]
    if found and parts.repeats > 1:
        message = (
            f"{parts.name}: a label rates one answer, and repeats is {parts.repeats}"
        )
        raise TaskFileError([Problem(message, parts.source, "set repeats: 1")])
    return found


def _checked_cases(
    parts: EvalParts, labelled: Sequence[HumanLabels]
) -> tuple[EvalCases, Sequence[str]]:
    """Return the cases, if labels, templates and targets fit them, with warnings."""
    cases = parts.load()
    if parts.user is not None:
        cases = cases.mapped(parts.user.applied)
    for labels in labelled:
        check_ids(labels, cases.ids().ids)
    placed = [(one, parts.places.get(one.name, parts.source)) for one in parts.scorers]
    templates = {
        template: place for scorer, place in placed for template in scorer.templates
    }
    if parts.user is not None:
        place = parts.places.get(USER, parts.source)
        templates |= dict.fromkeys(parts.user.templates, place)
    check_templates(templates, cases, is_text=parts.is_text)
    checked = [
        (one, at) for one, at in placed if isinstance(one, AnswerScorer | ModelScorer)
    ]
    warnings = check_rows(
        checked, cases, has_turns=parts.has_turns, place_of=parts.row_place
    )
    return cases, [*warnings]


def _with_judges(
    scorers: Sequence[Scorer],
) -> tuple[Sequence[Scorer], dict[str, ModelSource]]:
    """The scorers, and the models that they ask by name; equal sources are one
    model."""
    models: dict[str, ModelSource] = {}

    def role(source: ModelSource) -> str:
        for name, one in models.items():
            if one == source:
                return name
        name = f"{JUDGE_NAME}_{len(models) + 1}" if models else JUDGE_NAME
        models[name] = source
        return name

    return [
        replace(one, roles=tuple(map(role, one.sources)))
        if isinstance(one, ModelScorer)
        else one
        for one in scorers
    ], models


def _label_warnings(parts: EvalParts) -> Iterator[str]:
    """Yield why gates on a judge with human labels will be invalid, if that is known
    before the run."""
    gated = {one.metric for one in parts.gates}
    for scorer in parts.scorers:
        labels = scorer.labels if isinstance(scorer, RubricScorer) else None
        if labels is None or scorer.name not in gated:
            continue
        will = f"gates on {scorer.name} will be invalid"
        n = len(labels.by_id)
        if not labels.is_random:
            yield f"{will}: the labelled cases are not stated to be a random sample"
        elif n < LEAST_LABELS:
            yield f"{will}: {labels.place} has {n} labels, fewer than {LEAST_LABELS}"


def _metrics(scorers: Sequence[Scorer], options: TaskOptions) -> Iterator[Metric]:
    mean = AGGREGATIONS["mean"]
    for scorer in scorers:
        yield Metric(
            name=scorer.name,
            filter=FILTER,
            aggregate=partial(estimate, mean, scorer.name, options.bootstrap_iters),
            higher_is_better=True,
            is_mean=True,
            limits=scorer.limits,
            span=Span(*scorer.limits) if scorer.limits else ANYTHING,
            closed=True,
            is_graded=scorer.is_graded,
            labels=scorer.labels if isinstance(scorer, RubricScorer) else None,
        )
