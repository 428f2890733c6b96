"""Differences between the settings, machines and libraries of two runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_evals.core.comparison import ENVIRONMENT
from pytest_evals.errors import plural

Row = Mapping[str, Any]


ANSWER_KEYS = ("choices", "output_type", "generation_kwargs", "repeats", "filter_list")
"""Keys of a task file that answers depend on; the prompt is hashed."""


MACHINE_KEYS = ("device", "dtype", "torch_version", "transformers_version")


BATCH_KEYS = ("batch_size", "batch_tokens")
"""Model arguments that change numbers only by rounding."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One of two runs."""

    results: Mapping[str, Any]  # Content of its ``results.json``
    rows: Mapping[str, Sequence[Row]]  # Documents of each task, as in samples files
    doc: Callable[[Row], Mapping[str, Any]] | None = None
    """Returns the dataset row of a document, if it is not in ``rows``."""

    def of(self, section: str, task: str) -> Any:
        """Return an entry of a section of the results, ``None`` if it is missing."""
        found = self.results.get(section)
        return found.get(task) if isinstance(found, dict) else None


def mapping_at(found: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """The mapping at a key; empty if it is missing."""
    value = found.get(key)
    return value if isinstance(value, Mapping) else {}


def setting_changes(task: str, before: Side, now: Side) -> Iterator[str]:
    """Yield differences between settings, without looking at the documents."""
    shots = before.of("n-shot", task), now.of("n-shot", task)
    if None not in shots and shots[0] != shots[1]:  # other programs may not write them
        yield f"{shots[1]} shots instead of {shots[0]}"
    sizes = _limited(before, task), _limited(now, task)
    if sizes[0] != sizes[1] and not is_sample(task, before, now):
        shown = [n_selected(one, task) for one in (before, now)]
        yield f"{plural(shown[1], 'document')} instead of {shown[0]} (limit or sample)"
    versions = before.of("versions", task), now.of("versions", task)
    if None not in versions and versions[0] != versions[1]:
        yield f"version {versions[1]} of the task instead of {versions[0]}"
    judges = before.of("judged", task) or {}, now.of("judged", task) or {}
    for name in sorted({*judges[0], *judges[1]}):
        old, new = (judge.get(name, "nobody") for judge in judges)
        if old != new:
            yield f"{name} is {new} instead of {old}"
    configs = before.of("configs", task), now.of("configs", task)
    if isinstance(configs[0], dict) and isinstance(configs[1], dict):
        for key in ANSWER_KEYS:
            old, new = (config.get(key) for config in configs)
            if old != new:
                yield f"{key} is {new!r} instead of {old!r}"


def is_sample(task: str, before: Side, now: Side) -> bool:
    """Whether a run is a random sample of all documents, and the baseline has all."""
    options = now.results.get("options")
    if not isinstance(options, Mapping) or not options.get("sample"):
        return False
    samples = now.of("n-samples", task)
    total = samples.get("original") if isinstance(samples, Mapping) else None
    return not options.get("limit") and n_selected(before, task) == total is not None


def _limited(side: Side, task: str) -> Any:
    """The number of documents that a limit or a sample has left, ``None`` without one:
    a dataset may grow."""
    samples, selected = side.of("n-samples", task), n_selected(side, task)
    total = samples.get("original") if isinstance(samples, Mapping) else None
    return None if total is None or selected == total else selected


def n_selected(side: Side, task: str) -> Any:
    """The number of documents that a run has selected; ``None`` if unknown."""
    counts = side.of("counts", task)
    return counts.get("selected") if isinstance(counts, dict) else None


def environment_notes(before: Side, now: Side) -> tuple[str, ...]:
    """Return a note about the differences in hardware and libraries, which change
    numbers slightly; empty if nothing differs."""
    found = "; ".join(_machine_changes(before, now))
    return (f"{ENVIRONMENT}{found}",) if found else ()


def _machine_changes(before: Side, now: Side) -> Iterator[str]:
    old, new = (side.results.get("model_info") or {} for side in (before, now))
    keys = MACHINE_KEYS if new and old else ()  # a model may say nothing of itself
    if old.get("device_name") and new.get("device_name"):
        keys = (*keys, "device_name")
    yield from _differing(keys, old, new, "unknown")
    if "config" in before.results and "config" in now.results:  # not before its end
        old, new = _arguments(before), _arguments(now)
        yield from _differing(BATCH_KEYS, old, new, "automatic")


def _differing(
    keys: Iterable[str], old: Mapping[str, Any], new: Mapping[str, Any], absent: str
) -> Iterator[str]:
    for key in keys:
        if old.get(key) != new.get(key):
            known = (one.get(key) for one in (new, old))
            shown = (absent if value is None else repr(value) for value in known)
            yield "{}: {} (baseline: {})".format(key, *shown)


def _arguments(side: Side) -> Mapping[str, Any]:
    found = side.results["config"].get("model_args")
    return found if isinstance(found, dict) else {}
