"""``lighteval_model()``: a custom model for lighteval 0.13.0 that uses this package's
engines.

``lighteval custom NAME FILE TASKS`` opens the class that FILE defines. lighteval reads
tasks, builds prompts and computes metrics; the model's responses are computed here.
Prompts are tokenized as by lighteval's transformers backend.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pytest_evals.core.model import Model, ModelLike
from pytest_evals.core.request import (
    FITTING,
    Generate,
    Loglikelihood,
    Message,
    Prompt,
    Request,
    Response,
    Rolling,
)
from pytest_evals.errors import EvalsError, ModelError, OptionError
from pytest_evals.guests.harness.models import OnceLogger, failure, open_from, responses
from pytest_evals.prompts.generation import read_sampling

_LOG = logging.getLogger("lighteval.pytest_evals")
_IGNORED = ("batch_size", "cache_dir", "compile", "continuous_batching")
"""Arguments of lighteval's models that cannot change a response here."""
_DEFAULTS: Mapping[str, tuple[Any, ...]] = {
    "model_loading_kwargs": ({},),
    "model_parallel": (False,),
    "multichoice_continuations_start_space": (True, False),
    "pairwise_tokenization": (True, False),
    "skip_special_tokens": (True, False),
}
"""Arguments → values without effect, here and in lighteval's transformers backend."""
_QUANTIZED = {"4bit": "load_in_4bit", "8bit": "load_in_8bit"}
_UNSUPPORTED = (
    "block_size",
    "cache_implementation",
    "num_blocks",
    "response_format",
    "truncate_prompt",
)
_NO_WINDOW = 2048
"""Maximum of new tokens of documents without a limit, for models with an unknown
context window; they generate less if less fits."""
_FIX = "resolve the error and run again"


class _Settings(NamedTuple):
    """Arguments of :func:`lighteval_model`."""

    pretrained: str
    model: str | ModelLike
    system_prompt: str | None
    override_chat_template: bool | None
    generation_parameters: Mapping[str, Any]
    arguments: Mapping[str, Any]


class _NoCache:
    """In place of lighteval's cache of samples, which loses rolling log-likelihoods and
    mixes up the splits of a task."""

    def _init_registry(self, registry: Any) -> None:
        """Called by lighteval's pipeline."""


class LightevalHarness:
    """Answers the three types of requests of lighteval. Combined with lighteval's
    ``LightevalModel`` by :func:`lighteval_model`."""

    _settings: _Settings

    def __init__(self, config: Any = None) -> None:
        """Open the model. ``config``: lighteval's ``CustomModelConfig``; ``None`` if
        the object is passed to lighteval's ``Pipeline``.

        Raises:
            OptionError: An argument is missing, unknown or has an invalid value.
            MissingExtraError: A library that the model needs is not installed.
            ModelError: The model cannot be opened.
        """
        from lighteval.models.model_input import GenerationParameters
        from lighteval.tasks.prompt_manager import PromptManager

        given = self._settings
        pretrained, model = given.pretrained, given.model
        if not pretrained and not model and config is not None:
            pretrained = config.model_name
        self._model: Model = open_from(
            pretrained,
            model,
            _hf_names(given.arguments),
            hf_only={"tokenization": "lighteval"},
        )
        self._owned = self._model is not model
        info = self._model.info
        self._tokenizer = getattr(self._model, "tokenizer", None)
        self._max_length = int(info.get("max_length") or _NO_WINDOW)
        self.use_chat_template = given.override_chat_template
        if self.use_chat_template is None:
            self.use_chat_template = bool(info.get("chat_template"))
        try:
            parameters = GenerationParameters(**given.generation_parameters)
        except ValueError as error:
            raise OptionError(f"generation_parameters: {error}") from None
        self._sampling = _sampling_of(parameters.model_dump(exclude_none=True))
        self.prompt_manager = PromptManager(
            use_chat_template=self.use_chat_template,
            tokenizer=self._tokenizer,
            system_prompt=given.system_prompt,
        )
        self.config = _config(config, pretrained or str(model), given, parameters)
        self._cache = _NoCache()
        self._warn = OnceLogger(_LOG)

    def cleanup(self) -> None:
        """Close the model; called by lighteval when all requests are answered."""
        if self._owned:
            self._owned = False
            self._model.close()

    @property
    def tokenizer(self) -> Any:
        """The tokenizer of transformers; ``None`` for models without one."""
        return self._tokenizer

    @property
    def add_special_tokens(self) -> bool:
        """Whether prompts get the tokenizer's special tokens."""
        return self._settings.arguments.get("add_special_tokens") is not False

    @property
    def max_length(self) -> int:
        """Context window in tokens."""
        return self._max_length

    def loglikelihood(self, docs: Sequence[Any]) -> list[Any]:
        """Return the log-probability and greedy flag of each choice."""
        requests: list[list[Request]] = []
        for doc in docs:
            prompt = self._prompt(doc)
            choices = doc.choices or ()
            requests.append([Loglikelihood(prompt, choice) for choice in choices])
        tokens = self._choice_tokens(requests)
        return [
            _model_response(
                logprobs=[response.logprob for response in answers],
                argmax_logits_eq_gold=[self._greedy(response) for response in answers],
                output_tokens=[tokens[r] for r in sent] if tokens else [],
                truncated_tokens_count=max((r.n_truncated for r in answers), default=0),
            )
            for sent, answers in self._answers("loglikelihood", docs, requests)
        ]

    def loglikelihood_rolling(self, docs: Sequence[Any]) -> list[Any]:
        """Return the log-probability of each whole query."""
        requests: list[list[Request]] = [[Rolling(doc.query)] for doc in docs]
        return [
            _model_response(logprobs=[response.logprob for response in answers])
            for _, answers in self._answers("loglikelihood_rolling", docs, requests)
        ]

    def greedy_until(self, docs: Sequence[Any]) -> list[Any]:
        """Return the generated texts."""
        requests: list[list[Request]] = [[*self._generations(doc)] for doc in docs]
        return [
            _model_response(
                text=[response.text for response in answers],
                truncated_tokens_count=max((r.n_truncated for r in answers), default=0),
            )
            for _, answers in self._answers("greedy_until", docs, requests)
        ]

    def _generations(self, doc: Any) -> tuple[Generate, ...]:
        """The requests of a document, one per sample."""
        given = dict(self._sampling)
        stop = [] if self.use_chat_template else [*(doc.stop_sequences or ())]
        size = doc.generation_size or self._max_length
        sampling, warnings = read_sampling(
            {
                **given,
                "until": [*stop, *given.get("until", ())],
                "max_gen_toks": given.get("max_gen_toks") or max(1, size),
                FITTING: True,
            },
            {},
            "",
        )
        self._warn(warnings)
        if doc.num_samples > 1 and sampling.temperature == 0:
            raise OptionError(
                f"{doc.task_name} needs {doc.num_samples} samples of each document, "
                "and with temperature 0 all are equal: pass "
                'generation_parameters={"temperature": 0.7}'
            )
        return sampling.requests(self._prompt(doc), doc.num_samples)

    def _prompt(self, doc: Any) -> Prompt:
        if doc.images:
            raise OptionError(
                f"document {doc.id} of {doc.task_name} has images, which a custom "
                "model of lighteval does not receive"
            )
        if not self.use_chat_template:
            return str(self.prompt_manager.prepare_prompt(doc))
        chat = self.prompt_manager.prepare_prompt_api(doc)
        return tuple(Message(one["role"], one["content"]) for one in chat)

    def _answers(
        self, kind: str, docs: Sequence[Any], requests: Sequence[Sequence[Request]]
    ) -> list[tuple[Sequence[Request], list[Response]]]:
        """Each document's requests and their responses."""
        flat = [request for of_doc in requests for request in of_doc]
        results: list[Response] = [Response()] * len(flat)
        failed: list[tuple[int, str]] = []
        for place, response in responses(self._model, flat, kind, quiet=False):
            results[place] = response
            if response.error:
                failed.append((place, response.error))
        self._warn(self._model.notes)
        if failed:
            place, why = min(failed)
            sent = zip(docs, requests, strict=True)
            doc = [doc for doc, of_doc in sent for _ in of_doc][place]
            message = f"{len(failed)} of {len(flat)} {kind}"
            where = f"document {doc.id} of {doc.task_name}: "
            raise ModelError(failure(self._model, message, where, why, _FIX))
        rest = iter(results)
        return [(of_doc, [next(rest) for _ in of_doc]) for of_doc in requests]

    def _choice_tokens(
        self, requests: Sequence[Sequence[Request]]
    ) -> Mapping[Request, list[int]]:
        """Token ids of each choice, by which lighteval's metrics may normalize; empty
        for models without a tokenizer."""
        if self._tokenizer is None:
            return {}
        texts: dict[Request, str] = {}
        for of_doc in requests:
            for request in of_doc:
                if isinstance(request, Loglikelihood):
                    context = self._model.render(request.context)
                    blank = str(context)[len(str(context).rstrip()) :]
                    texts[request] = blank + request.continuation
        distinct = list(dict.fromkeys(texts.values()))
        if not distinct:
            return {}
        encoded = self._tokenizer(distinct, add_special_tokens=False)["input_ids"]
        ids = dict(zip(distinct, encoded, strict=True))
        return {request: ids[text] for request, text in texts.items()}

    def _greedy(self, response: Response) -> bool:
        if response.greedy is None:
            self._warn([f"{self._model} returns no greedy flags: counted as false"])
        return bool(response.greedy)


def lighteval_model(
    pretrained: str = "",
    *,
    model: str | ModelLike = "",
    system_prompt: str | None = None,
    override_chat_template: bool | None = None,
    generation_parameters: Mapping[str, Any] | None = None,
    **arguments: Any,
) -> type:
    """Return a model class for ``lighteval custom``, or for lighteval's ``Pipeline``
    once it is called.

    Args:
        pretrained: Folder or name of a Hugging Face model; by default the model name of
            the command. Other arguments are those of lighteval's transformers models,
            and those of ``hf:`` specs.
        model: Or any spec, such as ``openai:gpt-4o``, or an object with a name and
            ``answer``.
        system_prompt: System prompt of all tasks.
        override_chat_template: Whether prompts are chats; by default, if the model has
            a chat template.
        generation_parameters: lighteval's generation parameters.

    Raises:
        EvalsError: lighteval is not installed.
    """
    try:
        from lighteval.models.abstract_model import LightevalModel
    except ModuleNotFoundError as error:
        if error.name != "lighteval":
            raise
        raise EvalsError(
            "pytest_evals.harness.lighteval_model needs lighteval: "
            "pip install 'lighteval>=0.13'"
        ) from None

    class PytestEvals(LightevalHarness, LightevalModel):  # type: ignore[misc]
        __doc__ = LightevalHarness.__doc__
        _settings = _Settings(
            pretrained,
            model,
            system_prompt,
            override_chat_template,
            generation_parameters or {},
            arguments,
        )

    return PytestEvals


def _hf_names(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of lighteval's models by the names of an ``hf:`` spec."""
    given = {
        name: value
        for name, value in arguments.items()
        if name not in _IGNORED and value not in _DEFAULTS.get(name, ())
    }
    for name in _IGNORED:
        if arguments.get(name) not in (None, False):
            _LOG.info("%s=%s is ignored", name, arguments[name])
    if given.get("model_parallel"):
        del given["model_parallel"]
        given["device_map"] = "auto"
    if given.get("dtype") in _QUANTIZED:
        given[_QUANTIZED[given.pop("dtype")]] = True
    if (adds := given.pop("add_special_tokens", None)) is False:
        given["add_bos_token"] = adds
    return given


def _sampling_of(parameters: dict[str, Any]) -> Mapping[str, Any]:
    """lighteval's generation parameters by lm-eval's names."""
    unknown = [name for name in _UNSUPPORTED if name in parameters]
    if unknown:
        raise OptionError(f"generation_parameters: {', '.join(unknown)}: not supported")
    stop = parameters.pop("stop_tokens", ())
    size = parameters.pop("max_new_tokens", None)
    return {**parameters, "until": [*stop], "max_gen_toks": size}


def _config(config: Any, name: str, given: _Settings, parameters: Any) -> Any:
    """lighteval's description of the model for its results file."""
    from lighteval.models.custom.custom_model import CustomModelConfig

    class HarnessConfig(CustomModelConfig):  # type: ignore[misc]
        model_definition_file_path: str = ""
        arguments: dict[str, str] = {}  # noqa: RUF012 - pydantic copies it

    fields = {} if config is None else config.model_dump(exclude_none=True)
    shown = {"pretrained": name, **given.arguments}
    return HarnessConfig(
        **{
            "model_name": name,
            **fields,
            "system_prompt": given.system_prompt,
            "generation_parameters": parameters,
            "arguments": {key: str(value) for key, value in shown.items()},
        }
    )


def _model_response(**fields: Any) -> Any:
    from lighteval.models.model_output import ModelResponse

    return ModelResponse(**fields)
