"""Model kind ``vllm``: models that vLLM runs in this process. Importing it does not
import vLLM."""

from __future__ import annotations

from importlib.util import find_spec

from pytest_evals.core.model import Model, RequestTokenizer
from pytest_evals.errors import MissingExtraError
from pytest_evals.models.checkpoint import check_available
from pytest_evals.models.registry import ModelKind
from pytest_evals.models.spec import ModelSpec
from pytest_evals.models.vllm.settings import (
    VllmSettings,
    check_vllm,
    fingerprint,
    read_settings,
    why_unfit,
)


def _check_ready(spec: ModelSpec) -> None:
    settings = _settings(spec)
    for name in (settings.target, settings.tokens.tokenizer):
        revision = settings.tokens.revision if name == settings.target else ""
        check_available(name, revision)
    if settings.engine:
        from pytest_evals.models.vllm.engine import parsed_arguments

        parsed_arguments(settings)


def _open(spec: ModelSpec) -> Model:
    settings = _settings(spec)
    from pytest_evals.models.vllm.engine import prepare

    prepare()
    from pytest_evals.models.vllm.model import VllmModel

    return VllmModel(str(spec), settings)


def _open_tokenizer(spec: ModelSpec) -> RequestTokenizer:
    settings = _settings(spec)
    from pytest_evals.models.tokens.loader import tokenizer_of

    return tokenizer_of(settings.tokens)


def _settings(spec: ModelSpec) -> VllmSettings:
    settings = read_settings(spec)
    if find_spec("vllm") is None:
        raise MissingExtraError("the vllm model", "vllm", "vllm")
    return settings


VLLM = ModelKind(
    name="vllm",
    example="vllm:PATH_OR_NAME",
    open=_open,
    check=check_vllm,
    check_ready=_check_ready,
    one_per_session=True,
    is_deterministic=True,
    why_unfit=why_unfit,
    fingerprint=lambda spec, hash_file: fingerprint(read_settings(spec), hash_file),
    open_tokenizer=_open_tokenizer,
    target_key="pretrained",
)
