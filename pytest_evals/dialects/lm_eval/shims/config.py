"""A task's configuration as task classes read it (lm-eval 0.4.13, ``config/task.py``):
the keys of a task file as attributes."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from pytest_evals.dialects.detect import TASK_KEYS
from pytest_evals.errors import suggestion
from pytest_evals.prompts.generation import GREEDY

_DEFAULTS: Mapping[str, Any] = {
    "description": "",
    "fewshot_delimiter": "\n\n",
    "output_type": "generate_until",
    "repeats": 1,
    "should_decontaminate": False,
    "target_delimiter": " ",
    "unsafe_code": False,
}
"""Keys whose default is not ``None``."""
_INHERITED = (
    "process_docs", "doc_to_text", "doc_to_choice", "doc_to_target", "gen_prefix",
    "fewshot_delimiter", "target_delimiter",
)  # fmt: skip
"""Keys of few-shot examples that default to the task's."""


class FewshotConfig(SimpleNamespace):
    """Selection and formatting of few-shot examples."""

    def __init__(
        self,
        sampler: Any = "default",
        split: str | None = None,
        fewshot_indices: list[int] | None = None,
        samples: Any = None,
        **given: Any,
    ) -> None:
        _check(given, _INHERITED, "fewshot_config")
        super().__init__(
            sampler=sampler,
            split=split,
            fewshot_indices=fewshot_indices,
            samples=samples,
            **dict.fromkeys(_INHERITED) | given,
        )


class TaskConfig(SimpleNamespace):
    """The keys of a task, with lm-eval's defaults."""

    def __init__(self, task: Any = None, **given: Any) -> None:
        _check(given, TASK_KEYS, "the task config")
        empty: dict[str, Any] = dict.fromkeys(TASK_KEYS)
        values = {**empty, **_DEFAULTS, **given, "task": task}
        values["generation_kwargs"] = _generation(values)
        shots = values["fewshot_config"]
        if shots is None or isinstance(shots, Mapping):
            inherited = {key: values[key] for key in _INHERITED}
            inherited["split"] = values["fewshot_split"]
            values["fewshot_config"] = FewshotConfig(**{**inherited, **(shots or {})})
        super().__init__(**values)

    def __getitem__(self, item: str) -> Any:
        return getattr(self, item)

    def __setitem__(self, item: str, value: Any) -> None:
        setattr(self, item, value)

    def to_dict(self, keep_callable: bool = False) -> dict[str, Any]:
        """All keys with a value, in the order of results files. Functions are not
        converted to strings."""
        values = {key: getattr(self, key) for key in TASK_KEYS}
        values["fewshot_config"] = dict(vars(self.fewshot_config))
        return {key: value for key, value in values.items() if value is not None}


def _generation(values: Mapping[str, Any]) -> dict[str, Any] | None:
    given = values["generation_kwargs"]
    if given is None:
        if values["output_type"] != "generate_until":
            return None
        given = GREEDY
    arguments = {"until": [values["fewshot_delimiter"]], **given}
    if "temperature" in arguments:
        arguments["temperature"] = float(arguments["temperature"])
    return arguments


def _check(given: Mapping[str, Any], known: tuple[str, ...], owner: str) -> None:
    for key in given:
        if key not in known:
            raise TypeError(f"unknown key {key!r} in {owner}{suggestion(key, known)}")
