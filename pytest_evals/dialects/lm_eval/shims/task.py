"""Base class of all task classes (lm-eval 0.4.13, ``api/task.py``, ``Task``).

Subclasses may override any method, so methods must not rely on each other's
implementation.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from pytest_evals.data.hub import datasets_library
from pytest_evals.dialects.lm_eval.shims.config import TaskConfig
from pytest_evals.dialects.lm_eval.shims.scoring import Ensemble, ensembles
from pytest_evals.dialects.lm_eval.shims.unavailable_names import (
    NEWER,
    UNSUPPORTED,
    needs_lm_eval,
    newer_name_message,
)


@dataclass
class Instance:
    """One request; ``metadata`` is task name, document index and number of repeats."""

    request_type: str
    doc: dict[str, Any]
    arguments: Any
    idx: int
    metadata: tuple[str | None, int | None, int | None] = (None, None, None)
    resps: list[Any] = field(default_factory=list)
    filtered_resps: dict[str, Any] = field(default_factory=dict)
    task_name: str | None = None
    doc_id: int | None = None
    repeats: int | None = None

    def __post_init__(self) -> None:
        self.task_name, self.doc_id, self.repeats = self.metadata

    @property
    def args(self) -> tuple[Any, ...]:
        """The arguments, always a tuple."""
        given = self.arguments
        return given if isinstance(given, tuple) else (given,)


def _abstract(name: str) -> Any:
    def method(self: Any, *arguments: Any, **named: Any) -> Any:
        raise NotImplementedError(name)

    return method


class Task:
    """A task whose methods define everything."""

    VERSION: Any = None
    DATASET_PATH: str | None = None
    DATASET_NAME: str | None = None
    OUTPUT_TYPE: str | None = None
    MULTIMODAL: bool = False
    _configurable: Any = None
    """Class that ``from_config`` creates; it is a subclass, so it is set later."""

    def __init__(
        self,
        data_dir: str | None = None,
        cache_dir: str | None = None,
        download_mode: Any = None,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        self.download(data_dir, cache_dir, download_mode)
        self._training_docs: list[Any] | None = None
        self._fewshot_docs: list[Any] | None = None
        self._instances: Any = None
        # lm-eval passes the mapping as the task's name, which is set afterwards.
        self._config: Any = TaskConfig({**config}) if config else TaskConfig()
        self._filters: Sequence[Ensemble] = ensembles(None)
        self.fewshot_rnd: Random | None = None

    def __getattr__(self, name: str) -> Any:
        """Resolve names of later releases; explain names that are not supported."""
        if name == "task":  # not a property, since classes set such names
            return self.task_name
        if name == "is_multimodal":
            return bool(self.MULTIMODAL)
        if name in UNSUPPORTED:
            raise AttributeError(needs_lm_eval(f"{name} of a task"))
        if name in NEWER:
            raise AttributeError(newer_name_message(name))
        raise AttributeError(
            f"{type(self).__name__!r} object has no attribute {name!r}"
        )

    @classmethod
    def from_config(cls, config: Any) -> Any:
        """Create a task from its keys, like releases after 0.4.13."""
        keys = dict(config) if isinstance(config, Mapping) else config.to_dict()
        return (cls if cls is not Task else Task._configurable)(config=keys)

    def download(
        self, data_dir: Any = None, cache_dir: Any = None, download_mode: Any = None
    ) -> None:
        """Load the dataset into ``self.dataset``."""
        datasets = datasets_library("Task.download")
        self.dataset: Any = datasets.load_dataset(
            path=self.DATASET_PATH,
            name=self.DATASET_NAME,
            data_dir=data_dir,
            cache_dir=cache_dir,
            download_mode=download_mode,
        )

    @property
    def config(self) -> Any:
        """The configuration."""
        return self._config

    @property
    def task_name(self) -> Any:
        """The task's name."""
        return getattr(self.config, "task", None)

    @property
    def eval_docs(self) -> Any:
        """The evaluated documents. Raises ValueError if the task has none."""
        if self.has_test_docs():
            return self.test_docs()
        if self.has_validation_docs():
            return self.validation_docs()
        raise ValueError("the task has neither test nor validation documents")

    # Methods that every task defines itself.
    has_training_docs = _abstract("has_training_docs")
    has_validation_docs = _abstract("has_validation_docs")
    has_test_docs = _abstract("has_test_docs")
    doc_to_text = _abstract("doc_to_text")
    doc_to_target = _abstract("doc_to_target")
    doc_to_image = _abstract("doc_to_image")
    doc_to_audio = _abstract("doc_to_audio")
    doc_to_decontamination_query = _abstract("doc_to_decontamination_query")
    construct_requests = _abstract("construct_requests")
    process_results = _abstract("process_results")
    aggregation = _abstract("aggregation")
    higher_is_better = _abstract("higher_is_better")

    def training_docs(self) -> Any:
        """The training split."""
        return []

    def validation_docs(self) -> Any:
        """The validation split."""
        return []

    def test_docs(self) -> Any:
        """The test split."""
        return []

    def fewshot_docs(self) -> Any:
        """Default source of few-shot examples."""
        if self.has_training_docs():
            return self.training_docs()
        if self.has_validation_docs():
            return self.validation_docs()
        return self.test_docs()

    def get_docs(self, subset: str) -> Any:
        """The documents of ``test_split`` etc.; ``None`` without such a split."""
        name = subset.removesuffix("_split")
        if name not in ("training", "validation", "test"):
            return None
        exists = getattr(self, f"has_{name}_docs")()
        return getattr(self, f"{name}_docs")() if exists else None

    @staticmethod
    def process_doc(doc: Any, fn: Any = None) -> Any:
        """Return the document unchanged."""
        return doc

    def _process_doc(self, doc: Any) -> Any:
        return doc

    def doc_to_prefix(self, doc: Any) -> Any:
        """The beginning of the answer."""
        return ""

    def fewshot_examples(self, k: int, rnd: Random) -> list[Any]:
        """Random rows of the training split."""
        if self._training_docs is None:
            self._training_docs = list(self.training_docs())
        return rnd.sample(self._training_docs, k)

    def fewshot_context(
        self,
        doc: Any,
        num_fewshot: int = 0,
        rnd: Random | None = None,
        description: str | None = None,
        **kwargs: Any,
    ) -> Any:
        """The prompt of a document as plain text."""
        rnd = rnd or self.fewshot_rnd
        if rnd is None:
            raise ValueError(
                "fewshot_context: no random generator for few-shot examples"
            )
        shots = self._shots(doc, num_fewshot, rnd) if num_fewshot else []
        texts = [self.doc_to_text(row) + self.doc_to_target(row) for row in shots]
        front = "".join(f"{text}\n\n" for text in texts)
        return (description or "") + front + self.doc_to_text(doc)

    def _shots(self, doc: Any, n: int, rnd: Random) -> list[Any]:
        if self.has_training_docs():
            return self.fewshot_examples(k=n, rnd=rnd)
        if self._fewshot_docs is None:
            valid = self.has_validation_docs()
            self._fewshot_docs = list(
                self.validation_docs() if valid else self.test_docs()
            )
        drawn = rnd.sample(self._fewshot_docs, n + 1)
        return [row for row in drawn if row != doc][:n]

    @classmethod
    def count_bytes(cls, doc: str) -> int:
        """Number of bytes in UTF-8."""
        return len(doc.encode("utf-8"))

    @classmethod
    def count_words(cls, doc: str) -> int:
        """Number of words."""
        return len(re.split(r"\s+", doc))

    def apply_filters(self) -> None:
        """Filter the responses of the instances."""
        for each in self._filters:
            each.apply(self._instances)

    def dump_config(self) -> dict[str, Any]:
        """All keys with a value."""
        config: dict[str, Any] = self.config.to_dict()
        return config

    def get_config(self, key: str) -> Any:
        """Return the value of a key."""
        return getattr(self._config, key, None)

    def set_config(self, key: str, value: Any, update: bool = False) -> None:
        """Set a key, or update its mapping."""
        if update:
            getattr(self._config, key).update(value)
        else:
            setattr(self._config, key, value)

    def set_num_fewshot(self, num_fewshot: int) -> None:
        """Set the number of few-shot examples, unless the task sets 0."""
        if self._config.num_fewshot != 0:
            self._config.num_fewshot = int(num_fewshot)

    def set_repeats(self, repeats: int) -> None:
        """Set the number of answers to each request."""
        self._config.repeats = int(repeats)

    def set_fewshot_seed(self, seed: int | None = None) -> None:
        """Reset the random stream of few-shot examples."""
        self.fewshot_rnd = Random(seed)
        sampler = getattr(self, "sampler", None)
        if sampler is not None:
            sampler.set_rnd(seed)
