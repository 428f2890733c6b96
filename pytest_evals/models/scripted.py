"""Canned answers: a model for tests, for dry runs, and for a look at what a task asks.

``scripted:first``, ``scripted:echo``, ``scripted:fail`` and ``scripted:break`` are
built in; ``scripted:answers.json`` and ``scripted:answers.jsonl`` read answers from a
file. The same request always gets the same answer. Standard library only.

A ``.json`` file maps the end of a prompt to the answer::

    {"What is the capital of France?\\nAnswer:": "Paris"}

A ``.jsonl`` file holds a rule a line; the first that fits answers::

    {"prompt": "the end of it", "text": "Paris"}
    {"regex": "capital of (France|Italy)", "error": "the server is down"}
    {"regex": "a bomb", "refusal": "I cannot help with that."}
    {"continuation": " Paris", "logprob": -0.5, "greedy": true}
    {"prompt": "2 + 2 =", "text": "4", "top_logprobs": [["4", {"4": -0.1, "5": -2.4}]]}
    {"text": "anything else"}

A ``text`` also answers choices: the continuation that equals it, white space around it
aside, gets log-probability 0, every other one -100.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from pytest_evals.core.finite import is_finite
from pytest_evals.core.model import Model
from pytest_evals.core.request import (
    TOP_LOGPROBS,
    Generate,
    Loglikelihood,
    Request,
    Response,
    Rolling,
    TopLogprobs,
)
from pytest_evals.core.top_logprobs import read_top_logprobs
from pytest_evals.data.user_files import read_text
from pytest_evals.errors import (
    ModelError,
    OptionError,
    TaskFileError,
    similar_file,
    suggestion,
)
from pytest_evals.limits.patterns import PatternLimitError, compiled
from pytest_evals.models.registry import ModelKind
from pytest_evals.models.spec import ModelSpec

CERTAIN = 0.0
UNLIKELY = -100.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerRule:
    """Maps requests to an answer. Missing fields match every request."""

    prompt: str = ""  # End of the prompt; the document for a rolling request
    regex: str = ""  # Pattern that occurs in the prompt
    continuation: str = ""  # The continuation of a log-likelihood, exactly
    text: str = ""
    logprob: float | None = None  # In nats; ``None`` to go by ``text``
    greedy: bool | None = None
    """Whether greedy decoding gives the continuation; ``None`` to go by the
    log-probability."""
    error: str = ""  # The error instead of an answer
    refusal: str = ""  # The text of a refusal
    top_logprobs: TopLogprobs = ()  # Of the text's tokens, if a request asks for them

    def fits(self, request: Request) -> bool:
        """Whether this rule applies to the request; ``PatternLimitError`` if looking
        for ``regex`` takes too long."""
        prompt, expected = _prompt(request), self.continuation
        if expected and getattr(request, "continuation", "") != expected:
            return False
        if not prompt.endswith(self.prompt):
            return False
        return not self.regex or compiled(self.regex).is_in(prompt)

    def answer(self, request: Request) -> Response:
        """The response to a matching request."""
        if self.error:
            return Response(error=self.error)
        if isinstance(request, Generate):
            if self.refusal:
                return Response(text=self.refusal, finish="refused")
            found = _generated(request, self.text)
            asks_for_top = dict(request.options).get(TOP_LOGPROBS)
            top = self.top_logprobs if asks_for_top else ()
            return replace(found, top_logprobs=top)
        logprob = self.logprob
        if logprob is None:
            is_answer = isinstance(request, Loglikelihood) and (
                request.continuation.strip() == self.text.strip()
            )
            logprob = CERTAIN if is_answer else UNLIKELY
        greedy = logprob == CERTAIN if self.greedy is None else self.greedy
        return _scored(request, logprob, greedy)


class ScriptedModel(Model):
    """A model that answers by a function of the request; nothing is stored."""

    fingerprint = None
    is_deterministic = True

    def __init__(self, name: str, reply: Callable[[Request], Response]) -> None:
        """``reply`` gives the response to a request."""
        self.name = name
        self.info: Mapping[str, Any] = {"model": name}
        self._reply = reply

    def answer(self, requests: Sequence[Request]) -> Iterator[tuple[int, Response]]:
        """Answer one request after the other, in their order."""
        for place, request in enumerate(requests):
            yield place, self._reply(request)


def _check(spec: ModelSpec) -> None:
    for name in spec.arguments:
        raise OptionError(f"the scripted model takes no argument {name!r}")
    if spec.target not in BUILT_IN:
        read_rules(spec.target)


def _open(spec: ModelSpec) -> Model:
    if spec.target in BUILT_IN:
        return ScriptedModel(str(spec), BUILT_IN[spec.target])
    rules = read_rules(spec.target)

    def reply(request: Request) -> Response:
        try:
            for rule in rules:
                if rule.fits(request):
                    return rule.answer(request)
        except PatternLimitError as error:
            return Response(error=f"{spec.target}: {error}")
        tail = _prompt(request)[-60:]
        return Response(
            error=f"{spec.target} has no answer to a prompt ending {tail!r}; add a "
            'rule for it: {"prompt": "…", "text": "…"}'
        )

    model = ScriptedModel(str(spec), reply)
    rules_hash = hashlib.sha256(repr(rules).encode("utf-8", "replace")).hexdigest()
    model.info = {**model.info, "rules": rules_hash[:16]}
    return model


def read_rules(target: str) -> tuple[AnswerRule, ...]:
    """The rules of a file."""
    path = Path(os.path.expanduser(target))
    if path.suffix not in (".json", ".jsonl"):
        hint = suggestion(target, sorted(BUILT_IN))
        raise OptionError(
            f"unknown scripted model {target!r}{hint} (or a .json or .jsonl file)"
        )
    try:
        text = read_text(path)
    except TaskFileError as error:
        hint = "" if path.exists() else similar_file(path)
        raise OptionError(f"{error}{hint}") from None
    if path.suffix == ".jsonl":
        # Not `splitlines`: JSON texts may contain U+2028.
        lines = enumerate(text.split("\n"), start=1)
        places = ((f"{target}:{n}", line) for n, line in lines if line.strip())
        return tuple(_rule(where, _json(where, line)) for where, line in places)
    found = _json(target, text)
    if not isinstance(found, dict):
        raise OptionError(f"{target} is not an object of prompts and answers")
    return tuple(
        _rule(f"{target}: {prompt!r}", {"prompt": prompt, "text": answer})
        for prompt, answer in found.items()
    )


def _json(where: str, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:  # too many digits, brackets
        raise OptionError(f"{where}: invalid JSON: {error}") from None


def _rule(where: str, found: Any) -> AnswerRule:
    if not isinstance(found, dict):
        raise OptionError(f"{where}: a rule must be an object, not {found!r}")
    known = [f.name for f in fields(AnswerRule)]
    for name, value in found.items():
        if name not in known:
            hint = suggestion(name, known)
            raise OptionError(f"{where}: a rule has no {name!r}{hint}")
        if type(value) not in _TYPES.get(name, (str,)):
            raise OptionError(f"{where}: {name} cannot be {value!r}")
        if type(value) is int and not is_finite(value):
            raise OptionError(f"{where}: {name} is too large a number")
    try:
        compiled(found.get("regex", ""))
    except re.error as error:
        raise OptionError(f"{where}: not a regular expression: {error}") from None
    return AnswerRule(**{**found, TOP_LOGPROBS: _top_logprobs(where, found)})


def _top_logprobs(where: str, found: Mapping[str, Any]) -> TopLogprobs:
    try:
        return read_top_logprobs(found.get(TOP_LOGPROBS, ()))
    except (TypeError, ValueError):
        message = "top_logprobs is a list of [token, {token: log-probability, …}]"
        raise OptionError(f"{where}: {message}") from None


_TYPES: Mapping[str, tuple[type, ...]] = {
    "logprob": (int, float),
    "greedy": (bool,),
    TOP_LOGPROBS: (list,),
}


def _first(request: Request) -> Response:
    """Ranks continuations by length, then alphabet. Completions are empty."""
    if isinstance(request, Generate):
        return _generated(request, "")
    text = _answered(request)
    place = int.from_bytes(text.encode()[:6].ljust(6, b"\0"), "big") / 2**48
    return _scored(request, -len(text) - place, greedy=False)


def _echo(request: Request) -> Response:
    """Repeats the prompt; certain of continuations that occur in the prompt."""
    if isinstance(request, Generate):
        return _generated(request, _prompt(request))
    is_echo = _answered(request).strip() in _prompt(request)
    return _scored(request, CERTAIN if is_echo else UNLIKELY, greedy=is_echo)


def _break(request: Request) -> Response:
    """Raises ``ModelError`` at the first request, like a model whose server is gone."""
    raise ModelError("scripted:break breaks at the first request")


BUILT_IN: Mapping[str, Callable[[Request], Response]] = {
    "first": _first,
    "echo": _echo,
    "fail": lambda request: Response(error="scripted:fail answers nothing"),
    "break": _break,
}


def _prompt(request: Request) -> str:
    if isinstance(request, Rolling):
        return request.text
    prompt = request.prompt if isinstance(request, Generate) else request.context
    if isinstance(prompt, str):
        return prompt
    return "\n".join(message.content for message in prompt)


def _answered(request: Loglikelihood | Rolling) -> str:
    return request.text if isinstance(request, Rolling) else request.continuation


def _scored(request: Loglikelihood | Rolling, logprob: float, greedy: bool) -> Response:
    """A log-likelihood response; words count as tokens."""
    is_pair = isinstance(request, Loglikelihood)
    return Response(
        logprob=float(logprob),
        greedy=greedy if is_pair else None,
        n_prompt_tokens=len(_prompt(request).split()) if is_pair else 0,
        n_tokens=len(_answered(request).split()),
    )


def _generated(request: Generate, text: str) -> Response:
    """A completion, cut at its stop strings and token limit; words count as tokens."""
    for stop in request.stop:
        text = text.split(stop)[0] if stop else text
    words = [word for word in re.split(r"(?<=\S)(?=\s)", text) if word.strip()]
    short = len(words) <= request.max_tokens
    return Response(
        text=text if short else "".join(words[: request.max_tokens]),
        n_prompt_tokens=len(_prompt(request).split()),
        n_tokens=min(len(words), request.max_tokens),
        finish="stop" if short else "length",
    )


SCRIPTED = ModelKind(
    name="scripted",
    example="scripted:first",
    open=_open,
    check=_check,
    is_local=True,
    is_deterministic=True,
)
