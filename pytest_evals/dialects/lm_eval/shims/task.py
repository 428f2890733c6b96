"""What every task class derives from (lm-eval 0.4.13, ``api/task.py``, ``Task``).

Each method may be overridden, so none relies on another's being ours.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from pytest_evals.dialects.lm_eval.shims.config import TaskConfig
from pytest_evals.dialects.lm_eval.shims.scoring import Ensemble, ensembles
from pytest_evals.dialects.lm_eval.shims.unsupported import (
    LACKING,
    LATER,
    needs_lm_eval,
    of_later_lm_eval,
)


class Task:
    """A task that says everything by itself."""

    VERSION: Any = None
    DATASET_PATH: str | None = None
    DATASET_NAME: str | None = None
    OUTPUT_TYPE: str | None = None
    MULTIMODAL: bool = False
    _configurable: Any = None
    """What ``from_config`` makes, which is defined in terms of this class."""

    def __init__(
        self,
        data_dir: str | None = None,
        cache_dir: str | None = None,
        download_mode: Any = None,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        """Load the dataset."""
        self.download(data_dir, cache_dir, download_mode)
        self._training_docs: list[Any] | None = None
        self._fewshot_docs: list[Any] | None = None
        self._instances: Any = None
        # lm-eval hands the mapping on as the task's name, which is set afterwards.
        self._config: Any = TaskConfig({**config}) if config else TaskConfig()
        self._filters: Sequence[Ensemble] = ensembles(None)
        self.fewshot_rnd: Random | None = None

    def __getattr__(self, name: str) -> Any:
        """The name as later releases call it; or which one of lm-eval is not here."""
        if name == "task":  # no properties, since classes set such names themselves
            return self.task_name
        if name == "is_multimodal":
            return bool(self.MULTIMODAL)
        if name in LACKING:
            raise AttributeError(needs_lm_eval(f"{name} of a task"))
        if name in LATER:
            raise AttributeError(of_later_lm_eval(name))
        raise AttributeError(
            f"{type(self).__name__!r} object has no attribute {name!r}"
        )

    @classmethod
    def from_config(cls, config: Any) -> Any:
        """A task of these keys, as releases after 0.4.13 make one."""
        keys = dict(config) if isinstance(config, Mapping) else config.to_dict()
        return (cls if cls is not Task else Task._configurable)(config=keys)

    def download(
        self, data_dir: Any = None, cache_dir: Any = None, download_mode: Any = None
    ) -> None:
        """Load the dataset into ``self.dataset``."""
        import datasets

        self.dataset: Any = datasets.load_dataset(
            path=self.DATASET_PATH,
            name=self.DATASET_NAME,
            data_dir=data_dir,
            cache_dir=cache_dir,
            download_mode=download_mode,
        )

    @property
    def config(self) -> Any:
        """The keys of the task."""
        return self._config

    @property
    def task_name(self) -> Any:
        """Its name."""
        return getattr(self.config, "task", None)

    @property
    def eval_docs(self) -> Any:
        """The documents that are asked.

        Raises:
            ValueError: There are none.
        """
        if self.has_test_docs():
            return self.test_docs()
        if self.has_validation_docs():
            return self.validation_docs()
        raise ValueError("the task has neither test nor validation documents")

    def has_training_docs(self) -> bool:
        """Whether there is a training split."""
        raise NotImplementedError("has_training_docs")

    def has_validation_docs(self) -> bool:
        """Whether there is a validation split."""
        raise NotImplementedError("has_validation_docs")

    def has_test_docs(self) -> bool:
        """Whether there is a test split."""
        raise NotImplementedError("has_test_docs")

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
        """Where shots come from, if the task does not say."""
        if self.has_training_docs():
            return self.training_docs()
        if self.has_validation_docs():
            return self.validation_docs()
        return self.test_docs()

    def get_docs(self, subset: str) -> Any:
        """The documents of ``test_split`` and the like; ``None`` if there are none."""
        name = subset.removesuffix("_split")
        if name not in ("training", "validation", "test"):
            return None
        there = getattr(self, f"has_{name}_docs")()
        return getattr(self, f"{name}_docs")() if there else None

    @staticmethod
    def process_doc(doc: Any, fn: Any = None) -> Any:
        """The document as it is."""
        return doc

    def _process_doc(self, doc: Any) -> Any:
        return doc

    def doc_to_text(self, doc: Any) -> Any:
        """The question."""
        raise NotImplementedError("doc_to_text")

    def doc_to_target(self, doc: Any) -> Any:
        """The answer."""
        raise NotImplementedError("doc_to_target")

    def doc_to_image(self, doc: Any) -> Any:
        """The images of a document."""
        raise NotImplementedError("doc_to_image")

    def doc_to_audio(self, doc: Any) -> Any:
        """The sound of a document."""
        raise NotImplementedError("doc_to_audio")

    def doc_to_prefix(self, doc: Any) -> Any:
        """How the answer begins."""
        return ""

    def doc_to_decontamination_query(self, doc: Any) -> Any:
        """Has no effect."""
        raise NotImplementedError("doc_to_decontamination_query")

    def construct_requests(self, doc: Any, ctx: Any, **kwargs: Any) -> Any:
        """The instances of a document."""
        raise NotImplementedError("construct_requests")

    def process_results(self, doc: Any, results: Any) -> Any:
        """The values of a document by metric."""
        raise NotImplementedError("process_results")

    def aggregation(self) -> Any:
        """How values add up, by metric."""
        raise NotImplementedError("aggregation")

    def higher_is_better(self) -> Any:
        """Which way is better, by metric."""
        raise NotImplementedError("higher_is_better")

    def fewshot_examples(self, k: int, rnd: Random) -> list[Any]:
        """A draw from the training split."""
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
        """The prompt of a document, in plain text."""
        rnd = rnd or self.fewshot_rnd
        if rnd is None:
            raise ValueError("fewshot_context: no random generator to draw shots with")
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
        """Bytes of a text in UTF-8."""
        return len(doc.encode("utf-8"))

    @classmethod
    def count_words(cls, doc: str) -> int:
        """Words of a text."""
        return len(re.split(r"\s+", doc))

    def apply_filters(self) -> None:
        """Set the filtered responses of the instances."""
        for each in self._filters:
            each.apply(self._instances)

    def dump_config(self) -> dict[str, Any]:
        """The keys of the task that have a value."""
        found: dict[str, Any] = self.config.to_dict()
        return found

    def get_config(self, key: str) -> Any:
        """A key of the task."""
        return getattr(self._config, key, None)

    def set_config(self, key: str, value: Any, update: bool = False) -> None:
        """Change a key; a mapping may be added to."""
        if update:
            getattr(self._config, key).update(value)
        else:
            setattr(self._config, key, value)

    def set_num_fewshot(self, num_fewshot: int) -> None:
        """Change the number of shots, unless the task itself sets 0."""
        if self._config.num_fewshot != 0:
            self._config.num_fewshot = int(num_fewshot)

    def set_repeats(self, repeats: int) -> None:
        """Change how many answers are generated for each request."""
        self._config.repeats = int(repeats)

    def set_fewshot_seed(self, seed: int | None = None) -> None:
        """Begin the stream of draws."""
        self.fewshot_rnd = Random(seed)
        sampler = getattr(self, "sampler", None)
        if sampler is not None:
            sampler.set_rnd(seed)
