"""What is wrong with a task of a module before its dataset is looked at."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from pytest_evals.core.node_names import is_node_name
from pytest_evals.dialects.lighteval.grammar import grammar_text
from pytest_evals.dialects.lighteval.shots import SELECTIONS
from pytest_evals.errors import EvalsError, did_you_mean


class ModuleFault(NamedTuple):
    """What is wrong, and how to mend it."""

    what: str
    fix: str = ""


def is_config(given: Any) -> bool:
    """Whether something is a task: one of ours, or of an installed lighteval."""
    return hasattr(given, "name") and hasattr(given, "prompt_function")


def faults_of(config: Any) -> Iterator[ModuleFault]:
    """Everything that is wrong with the fields of a task."""
    yield from _name(config.name)
    if not callable(config.prompt_function):
        yield _wrong("prompt_function", "a function", config.prompt_function)
    if not isinstance(config.hf_repo, str) or not config.hf_repo:
        yield _wrong("hf_repo", "the name of a dataset", config.hf_repo)
    for key in ("hf_subset", "hf_revision", "few_shots_split", "few_shots_select"):
        if not isinstance(getattr(config, key), str | None):
            yield _wrong(key, "a text", getattr(config, key))
    if config.hf_filter is not None and not callable(config.hf_filter):
        yield _wrong("hf_filter", "a function of a row", config.hf_filter)
    fix = "metrics=[Metrics.exact_match]"
    if not isinstance(config.metrics, list | tuple | set | frozenset):
        yield _wrong("metrics", "a list of metrics", config.metrics, fix)
    elif not config.metrics:
        yield ModuleFault("metrics is empty", fix)
    for key in ("evaluation_splits", "hf_avail_splits", "stop_sequence"):
        yield from _texts(config, key)
    yield from _numbers(config)
    chosen = config.few_shots_select
    if isinstance(chosen, str) and chosen not in SELECTIONS:
        hint = did_you_mean(chosen, list(SELECTIONS))
        listed = ", ".join(SELECTIONS)
        yield ModuleFault(f"few_shots_select is one of {listed}, not {chosen!r}{hint}")
    yield from _grammar(config.generation_grammar)


def _grammar(given: Any) -> Iterator[ModuleFault]:
    try:
        if given is not None:
            grammar_text(given)
    except EvalsError as error:
        yield ModuleFault(str(error))


def _name(name: Any) -> Iterator[ModuleFault]:
    if not isinstance(name, str) or not name:
        yield _wrong("name", "a text", name)
    elif any(sign in name for sign in ("::", "[", "]", "|", "@")):
        yield ModuleFault(f"a name has no '::', '[', ']', '|' and '@': {name!r}")
    elif not is_node_name(name):
        yield ModuleFault(f"a name has no control characters: {name!r}")


def _texts(config: Any, key: str) -> Iterator[ModuleFault]:
    given = getattr(config, key)
    if key == "evaluation_splits" and not given:
        yield ModuleFault("evaluation_splits is empty", 'evaluation_splits=["test"]')
    elif isinstance(given, str):
        yield _wrong(key, "a list of texts", given, f"{key}=[{given!r}]")
    elif given is not None and not (
        isinstance(given, list | tuple) and all(isinstance(one, str) for one in given)
    ):
        yield _wrong(key, "a list of texts", given)


def _numbers(config: Any) -> Iterator[ModuleFault]:
    size = config.generation_size
    if size is not None and (not _is_whole(size) or (size < 1 and size != -1)):
        yield _wrong("generation_size", "a number of tokens", size)
    if not _is_whole(config.num_fewshots) or config.num_fewshots < 0:
        yield _wrong("num_fewshots", "a number of shots", config.num_fewshots)
    given = config.num_samples
    listed = list(given) if isinstance(given, list | tuple) else [given]
    if given is not None and not all(_is_whole(n) and n > 0 for n in listed):
        yield _wrong("num_samples", "a number of answers, or a list of them", given)
    if not isinstance(config.version, int | str):
        yield _wrong("version", "a number or a text", config.version)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _wrong(key: str, wanted: str, value: Any, fix: str = "") -> ModuleFault:
    return ModuleFault(f"{key} is {wanted}, not {value!r:.80}", fix)
