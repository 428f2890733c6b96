"""Base class of task classes that are configured by keys (lm-eval 0.4.13,
``api/task.py``, ``ConfigurableTask``).

Subclasses may override any method, so methods must not rely on each other's
implementation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from typing import Any

from pytest_evals.data.hub import datasets_library
from pytest_evals.dialects.lm_eval.shims.config import TaskConfig
from pytest_evals.dialects.lm_eval.shims.prompts import (
    choice_arguments,
    prompts_of,
    render_prompt,
    value_of,
)
from pytest_evals.dialects.lm_eval.shims.samplers import get_sampler
from pytest_evals.dialects.lm_eval.shims.scoring import Scoring, ensembles
from pytest_evals.dialects.lm_eval.shims.task import Instance, Task
from pytest_evals.dialects.lm_eval.shims.unavailable_names import needs_lm_eval

_OUTPUT_TYPES = (
    "generate_until",
    "loglikelihood",
    "loglikelihood_rolling",
    "multiple_choice",
)


class ConfigurableTask(Task):
    """A task defined by the keys of a task file."""

    VERSION = "Yaml"
    CONFIG: Any = None

    def __init__(
        self,
        data_dir: Any = None,
        cache_dir: Any = None,
        download_mode: Any = None,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        self._config = self.CONFIG or TaskConfig(**(config or {}))
        if self.CONFIG is not None:
            vars(self._config).update(config or {})
        self._apply_config()
        self._scoring = Scoring(self.config)
        self._scoring.aggregations()  # reports unknown names before rows are read
        self.download(self.config.dataset_kwargs)
        self._training_docs = self._fewshot_docs = None
        self._filters = ensembles(self.config.filter_list)
        rows = self.fewshot_docs()
        if rows is not None:
            named = self.fewshot_cfg.sampler
            make = get_sampler(named) if isinstance(named, str) else named
            self.sampler = make(list(rows), rnd=None)
        self.task_docs = self.eval_docs
        self._inspect_first_document()

    def _apply_config(self) -> None:
        config, metadata = self.config, self.config.metadata
        if config.use_prompt is not None:
            raise NotImplementedError(needs_lm_eval("use_prompt of a task class"))
        if isinstance(metadata, dict) and "version" in metadata:
            self.VERSION = metadata["version"]
        if config.output_type not in _OUTPUT_TYPES:
            raise ValueError(
                f"unknown output_type {config.output_type!r}; expected one of "
                f"{', '.join(_OUTPUT_TYPES)}"
            )
        self.OUTPUT_TYPE = config.output_type
        self.fewshot_cfg: Any = config.fewshot_config
        if config.doc_to_image is not None or config.doc_to_audio:
            self.MULTIMODAL = True
        if config.unsafe_code is not False:
            self.UNSAFE_CODE = True
        self.DATASET_PATH = config.dataset_path or self.DATASET_PATH
        self.DATASET_NAME = config.dataset_name or self.DATASET_NAME

    def _inspect_first_document(self) -> None:
        """Detect multiple inputs and targets from the first document, like lm-eval."""
        self.features = list(self.task_docs.features.keys())
        self.multiple_input = self.multiple_target = 0
        doc = self.task_docs[0]
        text, target = self.doc_to_text(doc), self.doc_to_target(doc)
        if self.config.doc_to_choice is not None:
            choices = self.doc_to_choice(doc)
            if isinstance(text, int):
                self.multiple_input = len(choices)
        if isinstance(target, list):
            self.multiple_target = len(target)

    def download(  # type: ignore[override]  # lm-eval's own arguments
        self, dataset_kwargs: dict[str, Any] | None = None, **kwargs: Any
    ) -> None:
        """Load the dataset into ``self.dataset``."""
        arguments = dict(dataset_kwargs or {})
        arguments.pop("trust_remote_code", None)
        if callable(self.config.custom_dataset):
            metadata = self.config.metadata or {}
            self.dataset = self.config.custom_dataset(**metadata, **arguments)
            return
        datasets = datasets_library("Task.download")
        self.dataset = datasets.load_dataset(
            path=self.DATASET_PATH, name=self.DATASET_NAME, **arguments
        )

    def has_training_docs(self) -> bool:
        """Whether the task has a training split."""
        return self.config.training_split is not None

    def has_validation_docs(self) -> bool:
        """Whether the task has a validation split."""
        return self.config.validation_split is not None

    def has_test_docs(self) -> bool:
        """Whether the task has a test split."""
        return self.config.test_split is not None

    def training_docs(self) -> Any:
        """The training split after ``process_docs``."""
        return self._split(self.has_training_docs(), self.config.training_split)

    def validation_docs(self) -> Any:
        """The validation split after ``process_docs``."""
        return self._split(self.has_validation_docs(), self.config.validation_split)

    def test_docs(self) -> Any:
        """The test split after ``process_docs``."""
        return self._split(self.has_test_docs(), self.config.test_split)

    def get_docs(self, subset: str) -> Any:
        """The split that a key such as ``test_split`` names, after ``process_docs``."""
        name = getattr(self.config, subset, None)
        return self._split(name is not None, name)

    def _split(self, exists: bool, name: str | None) -> Any:
        if not exists:
            return None
        rows, process = self.dataset[name], self.config.process_docs
        return rows if process is None else process(rows)

    def fewshot_docs(self) -> Any:
        """Few-shot examples: a split, rows in the file, or the task's default split."""
        shots = self.fewshot_cfg
        if shots.split is not None:
            rows = self.dataset[shots.split]
            return rows if shots.process_docs is None else shots.process_docs(rows)
        if shots.samples is not None:
            return shots.samples() if callable(shots.samples) else shots.samples
        return super().fewshot_docs()

    def doc_to_text(self, doc: Any, doc_to_text: Any = None) -> Any:
        """The question, or the index of the correct one."""
        return value_of(self, "doc_to_text", doc, doc_to_text, self.features)

    def doc_to_target(self, doc: Any, doc_to_target: Any = None) -> Any:
        """The answer."""
        return value_of(self, "doc_to_target", doc, doc_to_target, self.features)

    def doc_to_choice(self, doc: Any, doc_to_choice: Any = None) -> Any:
        """The choices."""
        return value_of(self, "doc_to_choice", doc, doc_to_choice, self.features)

    def doc_to_image(self, doc: Any, doc_to_image: Any = None) -> Any:
        """The images of a document."""
        return self._media("doc_to_image", doc, doc_to_image)

    def doc_to_audio(self, doc: Any, doc_to_audio: Any = None) -> Any:
        """The audio of a document."""
        return self._media("doc_to_audio", doc, doc_to_audio)

    def _media(self, key: str, doc: Any, given: Any) -> Any:
        spec = getattr(self.config, key) if given is None else given
        if isinstance(spec, list):
            values = [self._media(key, doc, one) for one in spec]
            return [one for one in values if one is not None]
        if spec is None:
            return None
        return value_of(self, key, doc, spec, self.features)

    def doc_to_prefix(self, doc: Any) -> Any:
        """The beginning of the answer."""
        if self.config.gen_prefix is None:
            return None
        return value_of(self, "gen_prefix", doc, None, self.features)

    def should_decontaminate(self) -> Any:
        """Has no effect on the run."""
        return self.config.should_decontaminate

    def fewshot_context(  # type: ignore[override]  # noqa: PLR0913 - lm-eval's own
        self,
        doc: Any,
        num_fewshot: int,
        system_instruction: str | None = None,
        apply_chat_template: bool = False,
        fewshot_as_multiturn: bool = False,
        chat_template: Callable[..., Any] | None = None,
        gen_prefix: str | None = None,
    ) -> Any:
        """The prompt of a document; one for each choice if choices are questions."""
        system = system_instruction or ""
        prompts = prompts_of(self, doc, num_fewshot, system, gen_prefix)
        template = chat_template if apply_chat_template else None
        texts = [
            render_prompt(turns, template, fewshot_as_multiturn) for turns in prompts
        ]
        return texts if self.multiple_input else texts[0]

    def construct_requests(self, doc: Any, ctx: Any, **kwargs: Any) -> Any:
        """The requests of a document, as instances."""
        chat = kwargs.pop("apply_chat_template", False)
        kwargs.pop("chat_template", None)
        media = self._media_argument(doc)
        if self.OUTPUT_TYPE == "multiple_choice":
            return [
                Instance("loglikelihood", doc, (*arguments, *media), idx, **kwargs)
                for idx, arguments in enumerate(choice_arguments(self, doc, ctx, chat))
            ]
        arguments: tuple[Any, ...]
        if self.OUTPUT_TYPE == "generate_until":
            arguments = (ctx, deepcopy(self.config.generation_kwargs))
        elif self.OUTPUT_TYPE == "loglikelihood":
            arguments = (ctx, self.doc_to_target(doc))
        else:
            arguments = (self.doc_to_target(doc),)
        return Instance(str(self.OUTPUT_TYPE), doc, (*arguments, *media), 0, **kwargs)

    def _media_argument(self, doc: Any) -> tuple[Any, ...]:
        given = {}
        if self.config.doc_to_image:
            given["visual"] = self.doc_to_image(doc)
        if self.config.doc_to_audio:
            given["audio"] = self.doc_to_audio(doc)
        return (given,) if given else ()

    def process_results(self, doc: Any, results: Sequence[Any]) -> Any:
        """The document's values by metric."""
        if callable(self.config.process_results):
            return self.config.process_results(doc, results)
        return self._scoring.values(self, doc, results)

    def aggregation(self) -> Any:
        """Aggregation functions by metric."""
        return self._scoring.aggregations()

    def higher_is_better(self) -> Any:
        """Directions by metric."""
        return self._scoring.directions()


Task._configurable = ConfigurableTask
