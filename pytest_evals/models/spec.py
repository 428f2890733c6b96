"""Model specs, ``KIND:TARGET[,NAME=VALUE…]``: parsing and formatting.

``hf:./my-model,dtype=bfloat16,device=cuda:1`` is the kind ``hf``, the target
``./my-model`` and two arguments. The kind defines their meaning
(:mod:`pytest_evals.models.registry`).
"""

from __future__ import annotations

import json
import math
import re
import shlex
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from pytest_evals.errors import OptionError, did_you_mean, suggestion
from pytest_evals.masking.names import is_secret_name
from pytest_evals.masking.registry import MASK
from pytest_evals.masking.values import masked_text, masked_words

_OF_SERVERS = re.compile(
    r"((openai|azure|anthropic|google|xai|deepseek)/)?"
    r"(?=gpt-[3-9]|chatgpt|o[1-9]\b|claude|gemini|grok|deepseek-(chat|reasoner))"
)
"""Names of models that only servers have, perhaps after their provider."""
_OTHER_KINDS = {
    **dict.fromkeys(("huggingface", "hf-auto", "transformers", "accelerate"), "hf"),
    **dict.fromkeys(("local-completions", "local-chat-completions"), "openai"),
    **dict.fromkeys(("openai-completions", "openai-chat-completions"), "openai"),
    **dict.fromkeys(("openai-chat", "litellm", "sglang"), "openai"),
}
"""Names of kinds in lm-eval, lighteval and others → ours."""
_SERVERS = {
    "ollama": "http://localhost:11434/v1",
    "lmstudio": "http://localhost:1234/v1",
    "llamacpp": "http://localhost:8080/v1",
    **dict.fromkeys(
        (
            *("anthropic", "azure", "bedrock", "deepseek", "gemini", "google", "groq"),
            *("mistral", "openrouter", "together", "vertex", "xai"),
        ),
        "",
    ),
}
"""Servers and providers → the address of their API, if it is the same for all."""
_CLOSING = {"(": ")", "[": "]", "{": "}"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSpec:
    """The spec of a model. ``target``: a folder, a name on the Hub, a file."""

    kind: str
    target: str
    arguments: Mapping[str, str] = field(default_factory=dict)
    is_command: bool = False
    """Whether the target is a command, in which commas and quotes are its own."""

    def __str__(self) -> str:
        """The spec on one line without secrets; the model's name in results files."""
        show = _shown_command if self.is_command else _quoted
        target = show(self.target)
        parts = [f"{self.kind}:{target}"]
        for name, value in self.arguments.items():
            secret = is_secret_name(name, loose=True)
            parts.append(f"{name}={MASK if secret else _quoted(value)}")
        return masked_text(",".join(parts))

    def __repr__(self) -> str:
        """Same as ``str``, so that tracebacks do not leak secrets."""
        return f"<ModelSpec {self}>"


def kind_name(text: str) -> str:
    """The kind in a spec; empty if missing."""
    kind, colon, _ = text.strip().partition(":")
    return kind if colon and re.fullmatch(r"[A-Za-z][\w-]*", kind) else ""


def is_command(text: str) -> bool:
    """Whether a spec names a command that starts the model."""
    return kind_name(text) == "serve"


def read_spec(
    text: str, kinds: Sequence[str], example: Callable[[str], str]
) -> ModelSpec:
    """Parse a spec; ``OptionError`` if the text is none, or its kind is unknown.

    Arguments are ``name=value`` after commas. A value may contain ``=``; commas inside
    quotes or brackets belong to it, and quotes around a whole value are removed.
    ``example``: a kind to one of its specs, for messages.
    """
    masked_text(text)  # from here on, no error repeats a secret
    head, *rest = _parts(text.strip())
    kind, target = kind_name(head), head.partition(":")[2]
    if not kind:
        raise OptionError(_no_kind(head, rest, kinds, example))
    if kind not in kinds:
        known = ", ".join(kinds)
        hint = _meant(kind, head, target) or did_you_mean(kind, kinds)
        hint = hint or f"; write 'python:{head}' for a function"
        raise OptionError(f"unknown kind of model {kind!r}{hint} (known: {known})")
    target = _unquoted(target.strip())
    if target.startswith("pretrained="):
        right = f"{kind}:{target.removeprefix('pretrained=')}"
        raise OptionError(f"'{kind}:{target}' names its model twice; write {right!r}")
    if asked := re.fullmatch(r"([^?;\s]+)(?:\?|\s*[;\s]\s*)(\w+=.*)", target):
        right = f"{kind}:{asked[1]},{asked[2].replace('&', ',')}"
        raise OptionError(f"arguments of a model follow a comma: write {right!r}")
    if not target:
        raise OptionError(f"'{kind}:' names no model; write {example(kind)!r}")
    return ModelSpec(kind=kind, target=target, arguments=_arguments(rest))


def _meant(kind: str, head: str, target: str) -> str:
    """The spec that is meant by a kind of others, or by an address."""
    if kind in ("http", "https"):
        return f"; write 'openai:MODEL,base_url={head}'"
    if kind.casefold() in _SERVERS:
        address = _SERVERS[kind.casefold()] or "ADDRESS"
        right = f"openai:{target},base_url={address}"
        return f"; write {right!r} for a server with OpenAI's API"
    if kind in _OTHER_KINDS:
        return f"; did you mean '{_OTHER_KINDS[kind]}:{target}'?"
    return ""


def read_command_spec(text: str, ends: Collection[str]) -> ModelSpec:
    """Parse a spec whose target is a command, up to the first ``,NAME=`` with one of
    these names; ``OptionError`` if the command is missing, or an argument is not
    ``NAME=VALUE``."""
    kind, _, rest = text.strip().partition(":")
    names = "|".join(map(re.escape, sorted(ends)))
    command, *given = re.split(rf",\s*(?=(?:{names})\s*=)", rest, maxsplit=1)
    if not command.strip():
        raise OptionError(f"'{kind}:' names no command; write '{kind}:COMMAND'")
    masked_text(text)  # from here on, no error repeats a secret
    _shown_command(command)
    arguments = _arguments(_parts(given[0]) if given else [])
    return ModelSpec(
        kind=kind, target=command.strip(), arguments=arguments, is_command=True
    )


def command_spec(
    command: str, environment: Mapping[str, str], arguments: Mapping[str, str]
) -> str:
    """The spec of a server that a command starts.

    >>> command_spec("vllm serve x", {"A": "b c"}, {"api": "chat"})
    "serve:A='b c' vllm serve x,api=chat"
    """
    variables = (f"{name}={shlex.quote(text)}" for name, text in environment.items())
    head = " ".join((*variables, command))
    given = (f"{name}={_quoted(value)}" for name, value in arguments.items())
    return ",".join((f"serve:{head}", *given))


def _shown_command(command: str) -> str:
    pieces = re.split(r"(\s+)", command)
    pieces[::2] = masked_words(pieces[::2])
    return "".join(pieces)


def _arguments(parts: list[str]) -> dict[str, str]:
    arguments: dict[str, str] = {}
    for part in parts:
        name, equals, value = part.partition("=")
        name = name.strip()
        if not equals or not name:
            shown = re.sub(r".*@", "***@", part)  # the end of a password with a comma
            raise OptionError(
                f"{shown!r} is not name=value in the model's arguments; "
                "put quotes around a value with a comma"
            )
        if name in arguments:
            raise OptionError(f"the model's argument {name!r} is given twice")
        arguments[name] = _unquoted(value.strip())
    return arguments


def _no_kind(
    head: str, rest: Sequence[str], kinds: Sequence[str], example: Callable[[str], str]
) -> str:
    named = _OTHER_KINDS.get(head, head)
    if named in kinds:
        # lm-eval's arguments: hf,pretrained=gpt2,dtype=float16
        keys = ("pretrained=", "model=", "model_name=")
        target = next((one for one in rest if one.startswith(keys)), "")
        spec = ",".join([one for one in rest if one != target])
        spec = f"{named}:{target.partition('=')[2]}{',' if spec else ''}{spec}"
        shown = spec if target else example(named)
        return f"{head!r} is a kind of model without a model; write {shown!r}"
    target = head.removeprefix("pretrained=")
    if not target:
        return f"no model is named; write {example('hf')!r}"
    first, slash, rest_of_name = target.partition("/")
    of_server = _OF_SERVERS.match(target)
    if of_server is not None:
        right = f"openai:{target[of_server.end() :]}"
    elif slash and rest_of_name and (kind := _OTHER_KINDS.get(first, first)) in kinds:
        right = f"{kind}:{_of_kind(kind, rest_of_name)}"
    elif target.endswith(".py"):
        right = f"python:{_of_kind('python', target.removeprefix('./'))}"
    else:
        right = f"hf:{target}"
    hint = f"did you mean {right!r}?"
    if right.startswith("openai:") and first == "openai" and of_server is None:
        hint = f"did you mean {right!r}, or weights of the Hub: 'hf:{target}'?"
    return f"{head!r} has no model kind; {hint}"


def _of_kind(kind: str, target: str) -> str:
    """A target in the form of its kind, which was written as a path."""
    if kind != "python":
        return target
    module, dot, function = target.removesuffix(".py").replace("/", ".").rpartition(".")
    is_file = target.endswith(".py") or not dot
    name = f"{module}.{function}".lstrip(".")
    return f"{name}:FUNCTION" if is_file else f"{module}:{function}"


def _parts(text: str) -> list[str]:
    """Split at commas outside quotes and brackets. Quotes only open at the start of a
    target or a value, so ``bob's`` is a plain word."""
    parts, start = [], 0
    for comma in _commas(text):
        parts.append(text[start:comma])
        start = comma + 1
    return [*parts, text[start:]]


def _commas(text: str) -> Iterator[int]:
    expected: list[str] = []
    quote, begins = "", True
    for place, sign in enumerate(text):
        if quote:
            quote = "" if sign == quote else quote
        elif sign in "'\"" and begins:
            quote = sign
        elif sign in _CLOSING:
            expected.append(_CLOSING[sign])
        elif expected and sign == expected[-1]:
            expected.pop()
        elif sign == "," and not expected:
            yield place
        begins = sign in "=,:" or (begins and sign == " ")
    if quote or expected:
        missing = quote or expected[-1]
        raise OptionError(f"the model's spec lacks a closing {missing}")


def _unquoted(value: str) -> str:
    quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "'\""
    return value[1:-1] if quoted else value


def _quoted(value: str) -> str:
    plain = _unquoted(value) == value and "," not in value
    return value if plain or value[:1] in _CLOSING else f'"{value}"'


_MOST_DIGITS = 15
"""Longer numbers are mistakes, and Python refuses to parse thousands of digits."""


@dataclass(frozen=True, slots=True)
class Arguments:
    """The arguments of one model kind. Readers take this, an argument's name and its
    value, and raise ``OptionError`` for an invalid value."""

    kind: str

    def read(
        self, spec: ModelSpec, settings: type, refused: Mapping[str, str]
    ) -> dict[str, Any]:
        """The values of a spec's arguments; ``OptionError`` if one is unknown or has an
        invalid value. ``settings``: a class with fields that :func:`argument` made.
        ``refused``: other arguments that users may expect → the way out."""
        readers = readers_of(settings)
        if unknown := [name for name in spec.arguments if name not in readers]:
            name = unknown[0]
            hint = suggestion(name, readers)
            why = f": {refused[name]}" if name in refused else hint
            raise OptionError(f"the {self.kind} model takes no argument {name!r}{why}")
        return {n: readers[n](self, n, value) for n, value in spec.arguments.items()}

    def wrong(self, name: str, value: str, rest: str) -> OptionError:
        """The error for an invalid value."""
        return OptionError(f"the {self.kind} model's {name} is {value!r}{rest}")

    def text(self, name: str, value: str) -> str:
        """Any non-empty string."""
        if not value:
            raise OptionError(f"the {self.kind} model's {name} is empty; leave it out")
        return value

    def flag(self, name: str, value: str) -> bool:
        """True or false."""
        word = value.lower()
        if word in ("true", "1", "yes"):
            return True
        if word in ("false", "0", "no"):
            return False
        raise self.wrong(name, value, "; write true or false")

    def mapping(self, name: str, value: str) -> dict[str, Any]:
        """A JSON object."""
        try:
            found = json.loads(value)
        except (ValueError, RecursionError) as error:
            message = f"the {self.kind} model's {name} is not JSON: {error}"
            raise OptionError(message) from None
        if not isinstance(found, dict):
            message = f"the {self.kind} model's {name} is not a JSON object: {value!r}"
            raise OptionError(message)
        return found


Reader = Callable[[Arguments, str, str], Any]


def argument(read: Reader, default: Any, *, shown: bool = True) -> Any:
    """A field of a settings class that is an argument of specs. ``shown``: whether its
    value is part of ``repr``."""
    metadata = {"read": read}
    if isinstance(default, dict):
        return field(default_factory=dict, metadata=metadata, repr=shown)
    return field(default=default, metadata=metadata, repr=shown)


def readers_of(settings: type) -> dict[str, Reader]:
    """Arguments of a settings class and their readers."""
    found = fields(settings)
    return {one.name: one.metadata["read"] for one in found if "read" in one.metadata}


def whole(least: int) -> Reader:
    """A reader of whole numbers from ``least``."""

    def read(kind: Arguments, name: str, value: str) -> int:
        digits = re.fullmatch(r"\d+(_\d+)*", value)
        if not digits or len(value) > _MOST_DIGITS or int(value) < least:
            raise kind.wrong(name, value, f"; write a whole number from {least}")
        return int(value)

    return read


def seconds(kind: Arguments, name: str, value: str) -> float:
    """Seconds, more than 0."""
    try:
        number = float(value)
    except ValueError:
        number = 0.0
    if not 0 < number < math.inf:
        raise kind.wrong(name, value, "; write seconds, more than 0")
    return number


def one_of(known: Sequence[str]) -> Reader:
    """A reader of one of these words."""

    def read(kind: Arguments, name: str, value: str) -> str:
        if value in known:
            return value
        raise kind.wrong(name, value, suggestion(value, known))

    return read
