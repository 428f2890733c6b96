"""Validation of a task's fields before its dataset is loaded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from pytest_evals.core.node_names import is_node_name
from pytest_evals.dialects.lighteval.grammar import grammar_text
from pytest_evals.dialects.lighteval.shots import SELECTIONS
from pytest_evals.errors import EvalsError, did_you_mean


class ConfigProblem(NamedTuple):
    """An invalid field and its fix."""

    what: str
    fix: str = ""


def is_config(given: Any) -> bool:
    """Whether a value is a task: ours, or of an installed lighteval."""
    return hasattr(given, "name") and hasattr(given, "prompt_function")


def config_problems(config: Any) -> Iterator[ConfigProblem]:
    """All problems of a task's fields."""
    yield from _name(config.name)
    if not callable(config.prompt_function):
        yield _invalid("prompt_function", "a function", config.prompt_function)
    if not isinstance(config.hf_repo, str) or not config.hf_repo:
        yield _invalid("hf_repo", "the name of a dataset", config.hf_repo)
    for key in ("hf_subset", "hf_revision", "few_shots_split", "few_shots_select"):
        if not isinstance(getattr(config, key), str | None):
            yield _invalid(key, "a string", getattr(config, key))
    if config.hf_filter is not None and not callable(config.hf_filter):
        yield _invalid("hf_filter", "a function of a row", config.hf_filter)
    fix = "metrics=[Metrics.exact_match]"
    if not isinstance(config.metrics, list | tuple | set | frozenset):
        yield _invalid("metrics", "a list of metrics", config.metrics, fix)
    elif not config.metrics:
        yield ConfigProblem("metrics is empty", fix)
    for key in ("evaluation_splits", "hf_avail_splits", "stop_sequence"):
        yield from _texts(config, key)
    yield from _numbers(config)
    chosen = config.few_shots_select
    if isinstance(chosen, str) and chosen not in SELECTIONS:
        hint = did_you_mean(chosen, list(SELECTIONS))
        listed = ", ".join(SELECTIONS)
        yield ConfigProblem(
            f"few_shots_select must be one of {listed}, not {chosen!r}{hint}"
        )
    yield from _grammar(config.generation_grammar)


def _grammar(given: Any) -> Iterator[ConfigProblem]:
    try:
        if given is not None:
            grammar_text(given)
    except EvalsError as error:
        yield ConfigProblem(str(error))


def _name(name: Any) -> Iterator[ConfigProblem]:
    if not isinstance(name, str) or not name:
        yield _invalid("name", "a string", name)
    elif any(sign in name for sign in ("::", "[", "]", "|", "@")):
        yield ConfigProblem(
            f"name must not contain '::', '[', ']', '|' or '@': {name!r}"
        )
    elif not is_node_name(name):
        yield ConfigProblem(f"name must not contain control characters: {name!r}")


def _texts(config: Any, key: str) -> Iterator[ConfigProblem]:
    given = getattr(config, key)
    if key == "evaluation_splits" and not given:
        yield ConfigProblem("evaluation_splits is empty", 'evaluation_splits=["test"]')
    elif isinstance(given, str):
        yield _invalid(key, "a list of strings", given, f"{key}=[{given!r}]")
    elif given is not None and not (
        isinstance(given, list | tuple) and all(isinstance(one, str) for one in given)
    ):
        yield _invalid(key, "a list of strings", given)


def _numbers(config: Any) -> Iterator[ConfigProblem]:
    size = config.generation_size
    if size is not None and (not _is_integer(size) or (size < 1 and size != -1)):
        yield _invalid("generation_size", "a positive integer", size)
    if not _is_integer(config.num_fewshots) or config.num_fewshots < 0:
        yield _invalid("num_fewshots", "a non-negative integer", config.num_fewshots)
    given = config.num_samples
    listed = list(given) if isinstance(given, list | tuple) else [given]
    if given is not None and not all(_is_integer(n) and n > 0 for n in listed):
        yield _invalid("num_samples", "a positive integer or a list of them", given)
    if not isinstance(config.version, int | str):
        yield _invalid("version", "a number or a string", config.version)


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _invalid(key: str, expected: str, value: Any, fix: str = "") -> ConfigProblem:
    return ConfigProblem(f"{key} must be {expected}, not {value!r:.80}", fix)
