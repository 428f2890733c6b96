"""Model kind ``openai``: served models. Importing it does not import the openai
library. Keys are read from the environment and only passed to the client."""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import TYPE_CHECKING

from pytest_evals.errors import EvalsError, MissingExtraError, OptionError
from pytest_evals.masking.registry import learn_secret
from pytest_evals.models.openai.fingerprint import openai_fingerprint
from pytest_evals.models.openai.settings import (
    OpenAISettings,
    check_openai,
    read_settings,
    why_unfit,
)
from pytest_evals.models.openai.spend_plan import spend_plan
from pytest_evals.models.registry import ModelKind
from pytest_evals.models.spec import ModelSpec

if TYPE_CHECKING:
    from pytest_evals.models.openai.model import OpenAIModel


def _open(spec: ModelSpec) -> OpenAIModel:
    """Open the model of a spec; sends no request.

    Raises:
        OptionError: The spec has a mistake, or the key is not in the environment.
        MissingExtraError: The openai library is not installed.
    """
    _check_ready(spec)
    settings = read_settings(spec)
    from pytest_evals.models.openai.model import OpenAIModel

    return OpenAIModel(str(spec), settings, _key(settings))


def _check_ready(spec: ModelSpec) -> None:
    """Check the model's requirements on this machine without sending a request.

    Raises:
        OptionError: The spec has a mistake, or the key is not in the environment.
        MissingExtraError: A library is not installed.
    """
    settings = read_settings(spec)
    if find_spec("openai") is None:
        raise MissingExtraError("the openai model", "openai", "openai")
    if settings.tokenizer:
        for library in ("torch", "transformers"):
            if find_spec(library) is None:
                what = "the openai model's tokenizer"
                raise MissingExtraError(what, library, "hf")
    _key(settings)


def _why_unable(spec: ModelSpec) -> str:
    """Why a server cannot score strings, determined by a few requests. Empty if it can,
    or if it does not reply: the first request will report that."""
    try:
        model = _open(spec)
    except EvalsError:
        return ""
    from pytest_evals.models.openai.capability_probe import ScoringUnsupportedError

    try:
        model.be_able_to_score()
    except ScoringUnsupportedError as error:
        return str(error)
    except EvalsError:
        return ""
    finally:
        model.close()
    return ""


def _key(settings: OpenAISettings) -> str:
    """The API key; empty if missing and the server does not need one."""
    variable = settings.api_key_env
    key = os.environ.get(variable, "").strip()
    learn_secret(key)
    if key or (not settings.is_openai and variable == "OPENAI_API_KEY"):
        return key
    other = "" if settings.is_openai else ", or leave api_key_env out"
    raise OptionError(
        f"the environment variable {variable} holds no key for {settings.url}\n"
        f"  fix: export {variable}=…{other}"
    )


OPENAI = ModelKind(
    name="openai",
    example="openai:MODEL,base_url=…",
    open=_open,
    check=check_openai,
    check_ready=_check_ready,
    why_unfit=why_unfit,
    why_unable=_why_unable,
    fingerprint=openai_fingerprint,
    spend_plan=spend_plan,
)
