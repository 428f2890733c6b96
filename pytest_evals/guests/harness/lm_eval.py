"""``LM``: a model for lm-evaluation-harness 0.4.13 that uses this package's engines.

``lm_eval.simple_evaluate(model=LM(pretrained="gpt2"), …)`` runs as usual: lm-eval reads
tasks, builds prompts and computes metrics; the model's responses are computed here.

lm-eval is imported when ``LM`` is first used, which also registers the class under the
name ``pytest-evals``.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import weakref
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from pytest_evals.core.model import ModelLike
from pytest_evals.core.request import (
    Generate,
    Loglikelihood,
    Message,
    Prompt,
    Request,
    Response,
    Rolling,
)
from pytest_evals.errors import MissingExtraError, ModelError, OptionError
from pytest_evals.guests.harness.models import OnceLogger, failure, open_from, responses
from pytest_evals.prompts.chat import ChatText
from pytest_evals.prompts.generation import read_sampling

NAME = "pytest-evals"
"""lm-eval's name of the model: ``--model pytest-evals``."""
_LOG = logging.getLogger("lm_eval.pytest_evals")
"""Below lm-eval's logger, which its command line shows."""
_FIX = (
    "resolve the error and run again; with use_cache=PATH lm-eval keeps the responses "
    "of the others"
)
_USUAL_SEED = 1234
"""lm-eval 0.4.13, ``defaults.py``, ``DEFAULT_OTHER_SEED``."""
_FIRST_GPU = ("cuda", "cuda:0")
"""Defaults of lm-eval, which uses the CPU if there is no GPU; so does ``hf:`` without a
device."""


class HarnessModel:
    """Answers the three types of requests of lm-eval. Combined with lm-eval's ``LM`` by
    :func:`lm_class`."""

    cache_hook: Any

    def __init__(
        self,
        pretrained: str = "",
        model: str | ModelLike = "",
        batch_size: int | str | None = None,
        device: str | None = None,
        max_batch_size: int | None = None,
        **arguments: Any,
    ) -> None:
        """Open the model.

        Args:
            pretrained: Folder or name of a Hugging Face model. Other arguments are
                those of lm-eval's ``hf`` model, and those of ``hf:`` specs.
            model: Or any spec, such as ``openai:gpt-4o``, or an object with a name and
                ``answer``. Other arguments are added to the spec.
            batch_size: Ignored: batches are formed by tokens; ``batch_tokens`` limits
                them.
            device: Device, such as ``cuda:1``; lm-eval's default, the first GPU, is
                the CPU if there is no GPU.
            max_batch_size: Ignored.
            **arguments: Arguments of the model.

        Raises:
            OptionError: An argument is missing, unknown or has an invalid value.
            MissingExtraError: A library that the model needs is not installed.
            ModelError: The model cannot be opened.
        """
        super().__init__()
        if device not in (None, *_FIRST_GPU):
            arguments["device"] = device
        sizes = {"batch_size": batch_size, "max_batch_size": max_batch_size}
        for name, size in sizes.items():
            if size is not None:
                _LOG.info("%s=%s is ignored: batches are formed by tokens", name, size)
        self._warn = OnceLogger(_LOG)
        processes = os.environ.get("WORLD_SIZE", "1")
        if processes != "1":  # set by accelerate launch and torchrun
            self._warn(
                [
                    f"{processes} processes were launched, and each answers all "
                    "requests: launch one; model=ray:hf:NAME,replicas=N uses N devices"
                ]
            )
        self._model = open_from(pretrained, model, arguments)
        if "device" in self._model.info:
            _LOG.info("device: %s", self._model.info["device"])
        if self._model is not model:
            weakref.finalize(self, self._model.close)

    def loglikelihood(
        self, requests: Sequence[Any], disable_tqdm: bool = False
    ) -> list[tuple[float, bool]]:
        """Return log-probability and greedy flag of each continuation.

        Raises:
            OptionError: The model thinks before it answers, as in lm-eval's ``hf``.
            ModelError: Some requests fail.
        """
        info = self._model.info
        thinks = dict(info.get("chat_template_args", {})).get("enable_thinking")
        if thinks and info.get("think_end_token"):
            tasks = {str(getattr(one, "task_name", "a task")) for one in requests}
            raise OptionError(
                "enable_thinking=True is for tasks that generate text only; "
                f"log-probabilities are needed by {', '.join(sorted(tasks))}"
            )
        asked: list[Request] = [
            Loglikelihood(_prompt(context), continuation)
            for context, continuation in (instance.args for instance in requests)
        ]
        return self._answer("loglikelihood", requests, asked, disable_tqdm)

    def loglikelihood_rolling(
        self, requests: Sequence[Any], disable_tqdm: bool = False
    ) -> list[float]:
        """Return the log-probability of each text."""
        asked: list[Request] = [Rolling(instance.args[0]) for instance in requests]
        return self._answer("loglikelihood_rolling", requests, asked, disable_tqdm)

    def generate_until(
        self, requests: Sequence[Any], disable_tqdm: bool = False
    ) -> list[str]:
        """Return the generated texts."""
        seen: Counter[tuple[int, Generate]] = Counter()
        asked: list[Request] = []
        usual = {"until": [], **_seed()}
        for instance in requests:
            context, gen_kwargs = instance.args
            sampling, warnings = read_sampling({**usual, **gen_kwargs}, {}, "")
            self._warn(warnings)
            (request,) = sampling.requests(_prompt(context), 1)
            # lm-eval repeats an instance; equal greedy prompts of others are sent once.
            once = (id(instance) if request.temperature == 0 else 0, request)
            asked.append(replace(request, repeat=seen[once]))
            seen[once] += 1
        return self._answer("generate_until", requests, asked, disable_tqdm)

    def _answer(
        self,
        kind: str,
        instances: Sequence[Any],
        requests: Sequence[Request],
        quiet: bool,
    ) -> list[Any]:
        """Answer each distinct request once, and add all to lm-eval's cache."""
        results: list[Any] = [None] * len(requests)
        failed: list[tuple[int, str]] = []
        label = f"Running {kind} requests"
        for place, response in responses(self._model, requests, label, quiet):
            if response.error:
                failed.append((place, response.error))
                continue
            result = results[place] = self._result(kind, response)
            self.cache_hook.add_partial(kind, instances[place].args, result)
        self._warn(self._model.notes)
        if failed:
            place, why = min(failed)
            message = f"{len(failed)} of {len(instances)} {kind}"
            where = _place(instances[place])
            raise ModelError(failure(self._model, message, where, why, _FIX))
        return results

    def _result(self, kind: str, response: Response) -> Any:
        if kind == "generate_until":
            return response.text
        if kind == "loglikelihood_rolling":
            return response.logprob
        if response.greedy is None:
            self._warn([f"{self._model} returns no greedy flags: counted as false"])
        return response.logprob, bool(response.greedy)

    def apply_chat_template(
        self,
        chat_history: Sequence[Mapping[str, Any]],
        add_generation_prompt: bool = True,
    ) -> str:
        """Render a chat with the model's chat template.

        Raises:
            DocumentError: There is no template, or it raises an error for the chat.
            OptionError: ``add_generation_prompt`` is false and the last message is not
                the assistant's, or the reverse.
        """
        chat = tuple(Message(one["role"], one["content"]) for one in chat_history)
        continues = bool(chat) and chat[-1].role == "assistant"
        if continues == add_generation_prompt:
            raise OptionError(
                "a chat whose last message is the assistant's is continued, and only "
                f"such a chat: add_generation_prompt={add_generation_prompt!r} after "
                f"{chat[-1].role if chat else 'no message'!r}"
            )
        text = self._model.render(chat)
        if isinstance(text, str):
            return text
        # The model gets messages, since it has no chat template.
        return ChatText.of(json.dumps([message._asdict() for message in text]), text)

    def chat_template(self, chat_template: bool | str = False) -> str:
        """Return the model's chat template, if it has one."""
        if isinstance(chat_template, str):
            self._warn(
                [
                    f"the chat template {chat_template!r} is not selected by name, as "
                    "in lm-eval's hf model: prompts use the tokenizer's default"
                ]
            )
        return str(self._model.info.get("chat_template", ""))

    @property
    def tokenizer_name(self) -> str:
        """Key of the tokenizer in lm-eval's cache of requests."""
        name = self._model.info.get("tokenizer") or self._model.name
        return str(name).replace("/", "__")

    def get_model_info(self) -> dict[str, Any]:
        """Return the model's metadata for lm-eval's results file, by its names."""
        names = {
            "model_num_parameters": "num_parameters",
            "model_dtype": "dtype",
            "model_revision": "revision",
            "model_sha": "commit",
        }
        info = self._model.info
        return {name: info[ours] for name, ours in names.items() if ours in info}


@cache
def lm_class() -> type:
    """Return ``LM``, lm-eval's class with this package's engines, and register it.

    Raises:
        MissingExtraError: lm-eval is not installed.
    """
    try:
        # Registers lm-eval's own models, which it skips once another is registered.
        import lm_eval.models  # noqa: F401
        from lm_eval.api.model import LM as Base
        from lm_eval.api.registry import register_model
    except ModuleNotFoundError as error:
        if error.name != "lm_eval":
            raise
        raise MissingExtraError("pytest_evals.harness", "lm-eval", "lm-eval") from None

    class LM(HarnessModel, Base):  # type: ignore[misc]
        __doc__ = HarnessModel.__doc__

    # Newer versions compare both with the entry point, which is loaded first.
    LM.__module__, LM.__qualname__ = "pytest_evals.harness", "LM"
    register_model(NAME)(LM)
    return LM


def _prompt(context: str) -> Prompt:
    return context.messages if isinstance(context, ChatText) else context


def _seed() -> dict[str, int]:
    """The seed of torch that lm-eval has set, unless it is lm-eval's default: then each
    request is seeded by its content alone, as in other runs of this package."""
    torch: Any = sys.modules.get("torch")
    seed = _USUAL_SEED if torch is None else torch.initial_seed()
    return {} if seed == _USUAL_SEED else {"seed": seed}


def _place(instance: Any) -> str:
    task, doc = getattr(instance, "task_name", None), getattr(instance, "doc_id", None)
    return f"document {doc} of {task}: " if task else ""
