"""Loading of tokenizers, and the loader's errors.

Messages of transformers are silenced during loading; relevant ones become errors.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from logging import ERROR
from typing import Any

import transformers
from huggingface_hub.utils import logging as hub_logging
from transformers.models.auto.tokenization_auto import get_tokenizer_config
from transformers.utils import logging

from pytest_evals.core.model import TokenStrings
from pytest_evals.core.request import (
    Generate,
    Loglikelihood,
    Prompt,
    Request,
    with_tools,
)
from pytest_evals.data.hub import sparing_hub, through_proxy
from pytest_evals.errors import DocumentError, MissingExtraError, ModelError
from pytest_evals.models.folders import is_local, path_of
from pytest_evals.models.tokens.encoder import Ids
from pytest_evals.models.tokens.request_encoder import RequestEncoder, valid
from pytest_evals.models.tokens.settings import TokenizerSettings

SHOWN = 4  # Number of first tokens in the model's info
_BROKEN = "\ufffd"
"""Replacement character that decoders return for incomplete UTF-8 sequences."""


class HfTokenizer:
    """Implements :class:`~pytest_evals.core.model.RequestTokenizer`."""

    def __init__(self, encoder: RequestEncoder) -> None:
        self._encoder = encoder

    def token_strings(self, request: Request) -> TokenStrings:
        """The tokens of a request, identical to the model's input."""
        if isinstance(request, Loglikelihood):
            pair = valid(*self._encoder.pairs([request]))
            return self._cut(pair.context, pair.continuation)
        if isinstance(request, Generate):
            ids = valid(*self._encoder.prompts([with_tools(request)]))
            return self._cut(ids, ids[:0])
        ids = valid(*self._encoder.texts([request.text]))
        return self._cut(valid(self._encoder.prefix()), ids)

    def render(self, prompt: Prompt) -> str:
        """The rendered prompt, identical to the model's input. Raises ``DocumentError``
        if there is no template, or it refuses the chat."""
        return self._encoder.render(prompt)

    def _cut(self, context: Ids, continuation: Ids) -> TokenStrings:
        texts = self._texts(context), self._texts(continuation)
        return TokenStrings(*texts, len(context), len(continuation))

    def _texts(self, ids: Ids) -> tuple[str, ...]:
        """The string of each token, or of several that make a character together."""
        texts: list[str] = []
        waiting: list[int] = []
        for id_ in ids.tolist():
            waiting.append(id_)
            text = self._encoder.decode(waiting, specials=True)
            if _BROKEN not in text:
                texts.append(text)
                waiting = []
        if waiting:
            texts.append(self._encoder.decode(waiting, specials=True))
        return tuple(texts)


def first_tokens(
    encoder: RequestEncoder, requests: Iterable[Request]
) -> dict[str, list[str]]:
    """The first tokens of the first valid prompt, for a model's info."""
    tokenizer = HfTokenizer(encoder)
    for request in requests:
        with suppress(DocumentError):
            cut = tokenizer.token_strings(request)
            return {"first_tokens": [*cut.context, *cut.continuation][:SHOWN]}
    return {}


# Its functions have no annotations.
_logging: Any = logging
_UNBOUNDED = 2**31  # Vocabulary limit if the weights are not loaded


def tokenizer_of(settings: TokenizerSettings, config: Any = None) -> HfTokenizer:
    """Load the tokenizer of a model without its weights; see :func:`load_tokenizer`."""
    tokenizer = load_tokenizer(settings, config)
    return HfTokenizer(RequestEncoder(tokenizer, settings, _UNBOUNDED))


def load_tokenizer(settings: TokenizerSettings, config: Any = None) -> Any:
    """Load the tokenizer of transformers. ``config``: the model's, if known."""
    with quiet(), one_error(settings.target):
        return read_tokenizer(settings, config)


def read_tokenizer(settings: TokenizerSettings, config: Any) -> Any:
    """The tokenizer. ``config`` is used if the tokenizer's files name its class."""
    source = origin(settings)
    if settings.tokenizer:
        source["pretrained_model_name_or_path"] = path_of(settings.tokenizer)
        source["revision"] = None
    if settings.add_bos_token is not None:
        source["add_bos_token"] = settings.add_bos_token
    if config is not None and not settings.tokenizer:
        path = source["pretrained_model_name_or_path"]
        named = get_tokenizer_config(path, revision=source["revision"])
        if named.get("tokenizer_class") and "auto_map" not in named:
            source["config"] = config
    return transformers.AutoTokenizer.from_pretrained(**source)


def origin(settings: TokenizerSettings) -> dict[str, Any]:
    """Arguments of every transformers loader."""
    return {
        "pretrained_model_name_or_path": path_of(settings.target),
        "revision": settings.revision or None,
        "trust_remote_code": settings.trust_remote_code,
    }


def describe_tokenizer(
    tokenizer: Any, settings: TokenizerSettings
) -> Mapping[str, Any]:
    """Tokenizer metadata for results files: special tokens and the chat template."""
    template = str(getattr(tokenizer, "chat_template", None) or "")
    sha = hashlib.sha256(template.encode()).hexdigest() if template else ""
    return {
        "tokenizer": settings.tokenizer or settings.target,
        "add_bos_token": settings.add_bos_token,
        "bos_token": _token(tokenizer, "bos"),
        "eos_token": _token(tokenizer, "eos"),
        "pad_token": _token(tokenizer, "pad"),
        "chat_template": template,
        "chat_template_sha": sha,
        "chat_template_args": dict(settings.template_args),
        "think_end_token": settings.think_end_token,
    }


def _token(tokenizer: Any, name: str) -> list[Any]:
    return [
        getattr(tokenizer, f"{name}_token", None),
        getattr(tokenizer, f"{name}_token_id", None),
    ]


@contextmanager
def quiet() -> Iterator[None]:
    """Silence messages and progress bars of transformers and huggingface_hub (which
    reports each retry); restores the previous state."""
    level = _logging.get_verbosity()
    hub_level = hub_logging.get_verbosity()
    bars = _logging.is_progress_bar_enabled()
    _logging.set_verbosity_error()
    hub_logging.set_verbosity(ERROR)
    _logging.disable_progress_bar()
    try:
        yield
    finally:
        _logging.set_verbosity(level)
        hub_logging.set_verbosity(hub_level)
        if bars:
            _logging.enable_progress_bar()


def advice_of(target: str, error: Exception) -> str:
    """A line with the fix for an error of transformers."""
    text = str(error)
    if "trust_remote_code" in text:
        return "\n  fix: add trust_remote_code=true if you trust the code of this model"
    if is_local(target):
        return "\n  fix: check config.json, the weights and the tokenizer in the folder"
    if "gated" in text or "401" in text or "403" in text:
        return "\n  fix: set HF_TOKEN to a token that may read this model"
    connection = f"the connection{through_proxy()}"
    return f"\n  fix: check the name on the Hub and {connection}, or give a folder"


@contextmanager
def one_error(
    target: str, advice: Callable[[str, Exception], str] = advice_of
) -> Iterator[None]:
    """Convert any exception of transformers to one error with cause and fix. A Hub that
    does not reply is contacted once; then only its cache is used."""
    hub = nullcontext() if is_local(target) else sparing_hub(probes=True)
    try:
        with hub:
            yield
    except (ModelError, MissingExtraError):
        raise
    # Libraries raise many kinds of exceptions, which all mean the same here.
    except Exception as error:  # noqa: BLE001
        text = first_line(error)
        raise ModelError(
            f"cannot load the model {target!r}: {text}{_reason(target, error)}"
            f"{advice(target, error)}"
        ) from (error if text in str(error) else None)


def _reason(target: str, error: BaseException) -> str:
    """Root cause of a Hub error: transformers only reports a failed connection."""
    root = error
    while root.__cause__ or root.__context__:
        root = root.__cause__ or root.__context__ or root
    if is_local(target) or root is error:
        return ""
    return f" ({type(root).__name__}: {first_line(root)})"


def first_line(error: BaseException) -> str:
    """First line of an error's message, without Hub tokens; with the second line if the
    first one introduces it."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    n = 2 if lines[0].endswith(":") else 1
    text = " ".join(line.strip() for line in lines[:n])
    return re.sub(r"hf_[A-Za-z0-9]{8,}", "hf_***", text)
