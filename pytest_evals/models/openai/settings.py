"""Arguments of ``openai:`` specs. Standard library only: invalid arguments are found
before the openai library is imported. Keys are not read here."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import urlsplit

from pytest_evals.errors import OptionError
from pytest_evals.masking.values import masked, masked_text
from pytest_evals.models.folders import check_folder
from pytest_evals.models.registry import TaskRequirements
from pytest_evals.models.spec import (
    Arguments,
    ModelSpec,
    argument,
    one_of,
    seconds,
    whole,
)

Api = Literal["", "chat", "completions"]
_ARGUMENTS = Arguments("openai")
OPENAI_URL = "https://api.openai.com/v1"
URL_VARIABLE = "OPENAI_BASE_URL"
"""The official client's environment variable for ``base_url``. That client itself reads
those for the organisation and the project."""
_REASONING = re.compile(r"(o[1-9]\d*|gpt-[5-9](\.\d+)?)(?!-chat)(-.*)?")
"""OpenAI's reasoning models. lm-eval 0.4.13 looks for single characters of the name and
so includes gpt-3.5."""
_KEY = "set the environment variable OPENAI_API_KEY, or name another by api_key_env="
NO_IMAGE_SCORES = (
    "a server gives no log-probabilities of a text after images\n  fix: use an hf: "
    "model, or run tasks with output_type generate_until only"
)
NO_CHAT = (
    "the chat api gives no log-probabilities of a text, which tasks with "
    "log-likelihoods need\n  fix: leave api=chat out, if the server has completions "
    "too; or run tasks with output_type generate_until only"
)
_NO_CONTINUATION = (
    "the context is a chat, and a server cannot score the continuation of a chat\n"
    "  fix: give the served model's tokenizer by tokenizer=, whose template makes a "
    "text of it; or leave --evals-apply-chat-template out"
)
_SCORED = ("loglikelihood", "multiple_choice")
REFUSED = {
    **dict.fromkeys(("api_key", "auth_token", "token"), _KEY),
    "batch_size": "requests are sent one by one, side by side; use concurrency",
    "ca_cert_path": "set the environment variable SSL_CERT_FILE",
    "header": "put what the body needs into extra_body",
    "max_gen_toks": "use --evals-gen-kwargs",
    "model": "the model is named after 'openai:'",
    "num_concurrent": "use concurrency",
    "seed": "use send_seed, or --evals-gen-kwargs seed=…",
    **dict.fromkeys(
        ("tokenized_requests", "tokenizer_backend"),
        "texts are sent as texts; see tokenizer",
    ),
    **dict.fromkeys(
        ("max_tokens", "stop", "temperature", "top_p"),
        "use --evals-gen-kwargs, or generation: in the eval",
    ),
    "verify_certificate": "set the environment variable SSL_CERT_FILE",
}
"""Arguments of lm-eval and of servers that do not exist here, with the alternative."""


_HIGHEST_COST = 1_000_000
_api = one_of(("chat", "completions"))


def _url(kind: Arguments, name: str, value: str) -> str:
    try:
        parts = urlsplit(value)
        sound = parts.scheme in ("http", "https") and bool(parts.hostname)
        sound = sound and (parts.port is None or parts.port > 0)
    except ValueError:
        sound = False
    if not sound:
        message = f"the openai model's {name}"
        if name == URL_VARIABLE:
            message = f"the environment variable {name}"
        raise OptionError(
            f"{message} is {masked_text(value)!r}; write an address "
            "such as http://localhost:8000/v1"
        )
    return value.rstrip("/")


def _variable(kind: Arguments, name: str, value: str) -> str:
    """The value is not shown, since it may be the key itself."""
    is_name = re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", value)
    if not is_name or masked({name: value}) != {name: value}:
        raise OptionError(
            f"the openai model's {name} is not the name of an environment "
            "variable; write its name, never the key itself"
        )
    return value


def _number(kind: Arguments, name: str, value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        number = -1.0
    if not 0 <= number < math.inf:
        raise kind.wrong(name, value, "; write a number, 0 or more")
    return number


def _price(kind: Arguments, name: str, value: str) -> float:
    price = _number(kind, name, value)
    if price > _HIGHEST_COST:
        message = f"; write a number up to {_HIGHEST_COST:,}, per million tokens"
        raise kind.wrong(name, value, message)
    return price


def _cost(kind: Arguments, name: str, value: str) -> float:
    cost = _number(kind, name, value)
    if not 0 < cost <= _HIGHEST_COST:
        message = f"; write a number above 0 and up to {_HIGHEST_COST:,}"
        raise kind.wrong(name, value, message)
    return cost


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAISettings:
    """Server and request settings; the fields are the arguments."""

    target: str  # The model's name on the server
    base_url: str = argument(_url, OPENAI_URL, shown=False)
    """The server's address, with ``/v1`` if it has one."""
    api: Api = argument(_api, "")  # noqa: RUF009
    """Which of the server's ways to ask is used for texts; empty for ``chat`` where the
    prompt is a chat and ``completions`` where it is a text."""
    api_key_env: str = argument(_variable, "OPENAI_API_KEY")
    """The environment variable that holds the key."""
    concurrency: int = argument(whole(1), 32)  # Most requests at the same time
    timeout: float = argument(seconds, 300.0)  # Seconds that one reply may take
    max_retries: int = argument(whole(0), 8)
    """How often a request is sent again when the server is busy or broken."""
    max_stops: int = argument(whole(0), 4)
    """Most stop strings that are sent; the others end texts here."""
    send_seed: bool = argument(Arguments.flag, True)
    """Whether sampled requests have a seed."""
    reasoning: bool | None = argument(Arguments.flag, None)
    """Whether the model thinks first and takes neither a temperature nor stop strings;
    ``None`` to go by its name at OpenAI."""
    think_end_token: str = argument(Arguments.text, "")
    """Text that ends the model's thinking: the answer is what comes after its last
    occurrence. Empty for none."""
    revision: str = argument(Arguments.text, "")
    """Which weights the server has under that name, in any words: stored responses of
    one revision are not used for another."""
    prefix: str = argument(Arguments.text, "")
    """String that precedes prompts without context, such as the end-of-text token of
    models without BOS."""
    tokenizer: str = argument(Arguments.text, "")
    """Folder or name of the served model's tokenizer: texts that are scored are then
    sent as its token ids, and prompts that do not fit are cut. Empty to send texts."""
    max_length: int = argument(whole(3), 0)
    """Tokens of the server's window; 0 for the server's own."""
    extra_body: Mapping[str, Any] = argument(Arguments.mapping, {}, shown=False)
    """Further parameters of each request."""
    price_in: float = argument(_price, 0.0)  # Price per million prompt tokens
    price_out: float = argument(_price, 0.0)  # Price per million completion tokens
    stream: bool = argument(Arguments.flag, False)
    """Whether answers are streamed, to measure the latency to the first token."""
    max_requests: int = argument(whole(1), 0)
    """Maximum of requests in a run, retries included; 0 for none."""
    max_cost: float = argument(_cost, 0.0)  # Maximum of cost in a run; 0 for none

    @property
    def is_openai(self) -> bool:
        """Whether the server is OpenAI's own."""
        host = urlsplit(self.base_url).hostname or ""
        return host == "api.openai.com" or host.endswith(".api.openai.com")

    @property
    def thinks(self) -> bool:
        """Whether the model accepts neither a temperature nor stop strings."""
        if self.reasoning is not None:
            return self.reasoning
        return self.is_openai and bool(_REASONING.fullmatch(self.target))

    @property
    def template_args(self) -> Mapping[str, Any]:
        """Arguments of the chat template, as in vLLM and SGLang."""
        found = self.extra_body.get("chat_template_kwargs")
        return found if isinstance(found, dict) else {}

    @property
    def url(self) -> str:
        """The server's address without secrets."""
        return masked_text(self.base_url)


def check_openai(spec: ModelSpec) -> None:
    """Check a spec; ``OptionError`` also if a local tokenizer is not there."""
    tokenizer = read_settings(spec).tokenizer
    if tokenizer:
        check_folder(tokenizer, needed="tokenizer_config.json")


def why_unfit(spec: ModelSpec, needs: TaskRequirements) -> str:
    """Why the model cannot run a task; empty if it can."""
    if needs.output_type not in (*_SCORED, "loglikelihood_rolling"):
        return ""
    if needs.images:
        return NO_IMAGE_SCORES
    settings = read_settings(spec)
    if settings.api == "chat":
        return NO_CHAT
    follows_chat = needs.chat and needs.output_type in _SCORED
    return _NO_CONTINUATION if follows_chat and not settings.tokenizer else ""


def read_settings(spec: ModelSpec) -> OpenAISettings:
    """The settings of a spec; ``OptionError`` if an argument or the environment
    variable is unknown or has a bad value.

    The path ``/completions`` or ``/chat/completions`` of an address, as in lm-eval, is
    removed and selects the API. Without ``base_url``, the address is the value of the
    environment variable, otherwise OpenAI's.
    """
    given = _ARGUMENTS.read(spec, OpenAISettings, REFUSED)
    if "base_url" not in given:
        address = os.environ.get(URL_VARIABLE, "").strip() or OPENAI_URL
        given["base_url"] = _url(_ARGUMENTS, URL_VARIABLE, address)
    url = given["base_url"]
    for ending, api in (("/chat/completions", "chat"), ("/completions", "completions")):
        if url.endswith(ending):
            url = given["base_url"] = url.removesuffix(ending)
            given.setdefault("api", api)
    if "prefix" in given and "tokenizer" in given:
        raise OptionError(
            "the openai model takes one of prefix and tokenizer: the tokenizer knows "
            "the token in front of a text"
        )
    if "max_length" in given and "tokenizer" not in given:
        raise OptionError(
            "the openai model takes max_length only with tokenizer, which counts the "
            "tokens of prompts\n  fix: add tokenizer=, a folder or a name on the Hub"
        )
    if "max_cost" in given and not given.get("price_in") and not given.get("price_out"):
        raise OptionError(
            "the openai model takes max_cost only with prices\n"
            "  fix: add price_in= and price_out=, per million tokens; or limit "
            "requests with max_requests="
        )
    return OpenAISettings(target=spec.target, **given)
