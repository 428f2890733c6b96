"""Compare several models on the same documents: paired differences from one of them,
ranks, and a matrix of documents. It reads the files of their runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from pytest_evals.core.comparison import (
    MetricChange,
    ModelComparison,
    ModelDocument,
    ModelMetric,
    ModelRank,
)
from pytest_evals.core.node_names import node_label
from pytest_evals.core.reference import MIN_OVERLAP
from pytest_evals.core.task import Task
from pytest_evals.errors import OptionError, unknown_name
from pytest_evals.gates.terms import NO_VARIANCE, ChangeEstimate
from pytest_evals.models.names import named
from pytest_evals.run.baselines import without_prompts
from pytest_evals.run.comparison import (
    Methods,
    PairedRuns,
    clusters_of,
    paired,
    side_of,
)
from pytest_evals.run.metric_changes import as_number, is_mean_of, keys_of
from pytest_evals.run.suite import TaskRun
from pytest_evals.stats.averages import Labels
from pytest_evals.stats.interval_methods import holm
from pytest_evals.store.baselines import check_model_names
from pytest_evals.store.document_pairs import firsts, values_by_key
from pytest_evals.store.history import EarlierRun, with_tasks
from pytest_evals.store.run_settings import Row, Side


def models_of(given: Sequence[Any] | Mapping[str, Any]) -> dict[str, Any]:
    """Return the models of ``evaluate()`` by name: that of a spec as for ``--model``,
    and that of an object or a function. Raises ``OptionError`` if two have one name."""
    if isinstance(given, Mapping):
        return dict(given)
    found: dict[str, Any] = {}
    for one in given:
        name, model = (
            named(one)[:2]
            if isinstance(one, str)
            else (str(getattr(one, "name", "") or getattr(one, "__name__", one)), one)
        )
        if name in found:
            raise OptionError(
                f"two models are called {name!r}\n  fix: name them: model={{'a': …}}"
            )
        found[name] = model
    return found


def check_several(models: Mapping[str, Any], reference: str, save: str) -> None:
    """Refuse arguments of ``evaluate()`` that need another number of models.

    Raises:
        OptionError: With the fix.
    """
    if reference and reference not in models:
        raise OptionError(f"reference: {unknown_name('model', reference, [*models])}")
    if models and save:
        check_model_names(save, [*models])


def compare_models(
    runs: Mapping[str, EarlierRun],
    reference: str,
    methods: Methods | None = None,
    *,
    min_overlap: float = MIN_OVERLAP,
    by_id: bool = False,
) -> ModelComparison:
    """Compare the runs of models.

    Args:
        runs: Name of each model → its run, at least two.
        reference: The model that the others are compared with.
        methods: Definitions of metrics that are not built in.
        min_overlap: Smallest share of the documents that two models must share.
        by_id: Whether documents are equal if their ids and targets are, although their
            prompts differ.

    Raises:
        StoreError: A run cannot be read.
    """
    sides = {name: side_of(run) for name, run in runs.items()}
    if by_id:
        sides = {name: _by_id(without_prompts(side)) for name, side in sides.items()}
    first = sides[reference]
    found = {
        name: paired(reference, first, side, methods, min_overlap=min_overlap)
        for name, side in sides.items()
        if name != reference
    }
    rows = {task: _shared_rows(task, sides, reference) for task in first.rows}
    refused = dict.fromkeys(
        f"{name}: {text}"
        for name, one in found.items()
        for text in (*one.comparison.refused, *one.comparison.warnings)
    )
    return ModelComparison(
        models=tuple(runs),
        reference=reference,
        metrics=tuple(_metrics(sides, reference, found, rows)),
        documents=tuple(
            document for task in first.rows for document in _documents(task, rows[task])
        ),
        refused=tuple(refused),
    )


def has_variants(runs: Iterable[TaskRun]) -> bool:
    """Whether an eval has variants."""
    return any(run.variant for run in runs)


def compare_variants(
    runs: Mapping[str, EarlierRun],
    tasks: Iterable[Task],
    methods: Methods | None = None,
    *,
    min_overlap: float = MIN_OVERLAP,
) -> list[ModelComparison]:
    """Compare the variants of evals, for each model: a comparison for all evals with
    variants of the same names.

    Args:
        runs: Name of each model → its run; an empty name if there is only one.
        methods, min_overlap: See :func:`compare_models`.

    Raises:
        StoreError: A run cannot be read.
    """
    evals: dict[str, dict[str, str]] = {}
    for task in tasks:
        if task.variant:
            evals.setdefault(task.node_name, {})[task.variant] = task.name
    alike: dict[tuple[str, ...], dict[str, dict[str, str]]] = {}
    for base, names in evals.items():
        alike.setdefault((*names,), {})[base] = names
    found = []
    for variants, group in alike.items():
        sides = {
            node_label(model, variant): with_tasks(
                run, {names[variant]: base for base, names in group.items()}
            )
            for model, run in runs.items()
            for variant in variants
        }
        if len(sides) > 1:
            moved = {
                (base, key): how
                for (task, key), how in (methods or {}).items()
                for base, names in group.items()
                if task in names.values()
            }
            first = next(iter(sides))
            found.append(
                compare_models(sides, first, moved, min_overlap=min_overlap, by_id=True)
            )
    return found


def _by_id(side: Side) -> Side:
    """A side whose documents are equal if their ids and targets are: rows of evals in
    Python have the parameters of their variant."""
    rows = {
        task: [
            {**row, "doc_hash": f"{row.get('target_hash')} {row.get('id')}"}
            for row in rows
        ]
        for task, rows in side.rows.items()
    }
    return Side(results=side.results, rows=rows)


def _shared_rows(
    task: str, sides: Mapping[str, Side], reference: str
) -> list[Mapping[str, Row]]:
    """Each document of a task that all models have with equal content: model → row."""
    by_model = {
        name: {row["doc_id"]: row for row in firsts(side.rows.get(task, ()))}
        for name, side in sides.items()
    }
    return [
        found
        for at, reference_row in by_model[reference].items()
        if len(
            found := {
                name: rows[at]
                for name, rows in by_model.items()
                if at in rows
                and rows[at].get("doc_hash") == reference_row.get("doc_hash")
            }
        )
        == len(sides)
    ]


def _documents(task: str, rows: Sequence[Mapping[str, Row]]) -> Iterator[ModelDocument]:
    for found in rows:
        one = next(iter(found.values()))
        yield ModelDocument(
            task=task,
            id=str(one.get("id", one["doc_id"])),
            correct=tuple(
                row.get("correct") if row.get("status") == "scored" else None
                for row in found.values()
            ),
            answers=tuple(str(row.get("answer") or "") for row in found.values()),
            target=str(one.get("target") or ""),
        )


def _metrics(
    sides: Mapping[str, Side],
    reference: str,
    found: Mapping[str, PairedRuns],
    rows: Mapping[str, Sequence[Mapping[str, Row]]],
) -> Iterator[ModelMetric]:
    first = sides[reference]
    every = {name: one.comparison.metrics for name, one in found.items()}
    for task in _names(first):
        numbers = {name: side.of("results", task) or {} for name, side in sides.items()}
        directions = first.of("higher_is_better", task) or {}
        for key in keys_of(*numbers.values()):
            higher = directions.get(key.partition(",")[0])
            ranks = {}
            if task in rows and higher is not None:
                values = {name: one.get(key) for name, one in numbers.items()}
                ranks = _ranks(sides, task, key, rows[task], values, higher=higher)
            changes = {
                name: next((m for m in metrics if (m.task, m.key) == (task, key)), None)
                for name, metrics in every.items()
            }
            p_values = _adjusted(changes, found, task, key)
            for name in sides:
                yield ModelMetric(
                    task=task,
                    key=key,
                    model=name,
                    value=as_number(numbers[name].get(key)),
                    higher_is_better=higher,
                    change=changes.get(name),
                    p_value=p_values.get(name),
                    rank=ranks.get(name),
                )


def _names(side: Side) -> list[str]:
    names = [*(side.results.get("results") or {})]
    groups = [name for name in side.results.get("groups") or {} if name in names]
    return [*groups, *(name for name in names if name in side.rows)]


def _adjusted(
    changes: Mapping[str, MetricChange | None],
    found: Mapping[str, PairedRuns],
    task: str,
    key: str,
) -> dict[str, float]:
    """The p-values of the models with one, adjusted for each other."""
    p_values: dict[str, float] = {}
    for name, change in changes.items():
        estimate = found[name].estimates.get(task, {}).get(key, "")
        if change is None or isinstance(estimate, str):
            continue
        if change.low is not None:
            p_values[name] = _two_sided(estimate)
        elif change.no_interval == NO_VARIANCE:
            p_values[name] = 1.0
    return dict(zip(p_values, holm([*p_values.values()]), strict=True))


def _two_sided(estimate: ChangeEstimate) -> float:
    """The p-value of no change: below 0.1 if the 90% confidence interval excludes 0."""
    return min(1.0, 2 * min(estimate.p_less(0.0), estimate.p_greater(0.0)))


def _ranks(
    sides: Mapping[str, Side],
    task: str,
    key: str,
    rows: Sequence[Mapping[str, Row]],
    numbers: Mapping[str, Any],
    *,
    higher: bool,
) -> dict[str, ModelRank]:
    """The ranks of the models by a metric that is a mean of its documents; none for
    other metrics, or if a model lacks a document."""
    table: list[list[float]] = []
    at = {row["doc_id"]: n for n, found in enumerate(rows) for row in found.values()}
    for name, side in sides.items():
        values = values_by_key(side.rows[task], at).get(key, {})
        if len(values) < len(rows) or not is_mean_of([*values.values()], numbers[name]):
            return {}
        sign = 1 if higher else -1
        table.append([sign * float(values[n]) for n in range(len(rows))])
    if len(rows) < 2:
        return {}
    first = next(iter(sides.values()))
    places = [next(iter(found.values()))["doc_id"] for found in rows]
    try:
        clusters: Labels = clusters_of(task, first, places)
    except ValueError:
        return {}
    from pytest_evals.stats.ranks import rank_estimates  # late: it needs NumPy

    ranked = rank_estimates(table, clusters)
    return dict(zip(sides, ranked, strict=True))
