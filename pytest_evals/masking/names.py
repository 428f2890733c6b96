"""Names of secrets: ``api_key``, but neither ``max_tokens`` nor ``model_key``."""

from __future__ import annotations

import re
from functools import lru_cache

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_SECRET = _set(
    "accesskey apikey auth authorization bearer connectionstring connstr cookie "
    "credential credentials dsn jwt pass passcode passphrase passwd password passwords "
    "pat privatekey pwd secret secretkey secrets webhook"
)
"""Last words of names whose values are secret."""
_OPENING = _set(
    "access account admin anthropic api app auth aws azure client consumer deploy "
    "encryption function functions gemini google hf host huggingface inference license "
    "master openai "
    "openrouter personal private secret security server service session shared "
    "signing ssh storage subscription together user"
)
"""Words before ``key`` that make it secret: ``api_key``, but not ``model_key``."""
_NAMING = _set("answer cache dataset doc foreign group label model primary public sort")
"""Words before ``key`` in model arguments that do not make it secret."""
_NO_PASSWORD = _set(
    "all by can does first forward last multi must n num one second should single two "
    "will"
)
"""Words before ``pass`` that make it a pass over data."""
_NO_PERSON = _set("filter match regex search split stop")
"""Words before ``pat`` that make it a pattern."""
_IN_FORM = {
    "header": _set("auth authorization"),
    "url": _set("dsn webhook"),
    "uri": _set("dsn webhook"),
}
"""Last words of names of secrets that state a form, and the words before them."""
_SEVERAL = _OPENING - {"server", "service", "shared", "user"}
"""Words before ``tokens`` that make them secret."""
_OF_TEXT = _set(
    "add added assistant audio begin blank bos by chat cls completion decoder doc "
    "document draft each end eod eom eop eos eot extra fim first forced generated "
    "gmask im image input last mask max media min n new newline next norm num output "
    "pad per prefix prev prompt reserved role sep separator sink sop sot special "
    "speaker start stop suffix system target template text think thinking total turn "
    "unk video vision vocab word"
)
"""Words before ``token`` that make it a piece of text: ``eos_token``."""


@lru_cache(maxsize=4096)
def is_secret_name(name: str, *, loose: bool = False) -> bool:
    """Return whether values under a name are secret. ``name``: words in any case style:
    ``api_key``, ``X-Api-Key``, ``apiKey``. ``loose``: whether signatures and names that
    end in ``key`` are secret, with few exceptions; used for model arguments, URLs and
    environment variables."""
    words = [word.lower() for word in _WORDS.findall(name)]
    while len(words) > 1 and (words[-1].isdigit() or words[-1] == "value"):
        words.pop()
    if not words:
        return False
    if len(words) > 1 and words[-2] in _IN_FORM.get(words[-1], ()):
        return True
    last, before = words[-1], words[-2] if len(words) > 1 else ""
    known = {
        "pass": before not in _NO_PASSWORD and not name[-1:].isdigit(),
        "pat": before not in _NO_PERSON,
        "key": before not in _NAMING if loose else before in _OPENING,
        "keys": before in _OPENING,
        "sig": loose,
        "signature": loose,
        "token": before not in _OF_TEXT,
        "tokens": before in _SEVERAL,
    }
    return known.get(last, last in _SECRET or before + last in _SECRET)


def names_number(name: str) -> bool:
    """Return whether a number under a name is not secret: the vocabulary index of a
    ``token``, a count of passes."""
    return name.lower().endswith(("token", "tokens", "pass"))


def names_variable(name: str) -> bool:
    """Return whether a name is that of an argument that names the environment variable
    of a secret: ``api_key_env``."""
    stem, _, last = name.lower().rpartition("_")
    return last in ("env", "var") and is_secret_name(stem, loose=True)
