"""vLLM's engine: sequences of token ids in, outputs as they finish.

The only module that calls vLLM. The engine runs in this process, unless the user sets
``VLLM_ENABLE_V1_MULTIPROCESSING=1``: then its scheduling is deterministic, an interrupt
reaches it at once, and errors have their cause.
"""

from __future__ import annotations

import argparse
import logging
import os
import random
import re
import threading
import warnings
import weakref
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from functools import cache
from itertools import count, islice
from typing import Any, NamedTuple

import numpy as np
import torch

from pytest_evals.errors import EvalsError, ModelError, OptionError
from pytest_evals.masking.values import masked_text
from pytest_evals.models.folders import path_of
from pytest_evals.models.vllm.settings import ARGUMENTS, VllmSettings

WAITING = 4096  # Requests in the engine at once, running or waiting
_DEFAULTS = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_LOGGING_LEVEL": "ERROR",
    # Streams that pytest replaces are closed before vLLM writes its last message.
    "VLLM_LOGGING_STREAM": "ext://sys.__stderr__",
}
"""Environment variables of vLLM, if the user has not set them."""
_OPEN: weakref.WeakSet[VllmEngine] = weakref.WeakSet()
"""The engines of this process: they share vLLM's global state, so at most one."""


class EngineRequest(NamedTuple):
    """A sequence and vLLM's ``SamplingParams`` for it; with images vLLM's prompt takes
    the place of the sequence."""

    key: int
    ids: list[int]
    params: Any
    prompt: Mapping[str, Any] | None = None


class EngineOutput(NamedTuple):
    """vLLM's ``RequestOutput`` of a request; or why vLLM rejects the request."""

    key: int
    output: Any
    error: str = ""


class VllmEngine:
    """An engine with one model."""

    def __init__(self, settings: VllmSettings) -> None:
        """Load the model. Raises ``OptionError`` if vLLM rejects an engine argument.
        Raises ``ModelError`` if the model cannot be loaded, or another one is open."""
        if _OPEN:
            raise ModelError(
                f"cannot open the model {settings.target!r}: vLLM runs one engine per "
                f"session, and {next(iter(_OPEN)).target!r} is open\n"
                "  fix: start one of them with 'vllm serve' and use --model=openai:… "
                "or --evals-judge=openai:…"
            )
        self.target: str = settings.target
        arguments = parsed_arguments(settings)
        self._names = count()
        with _quiet(), _same_random_state():
            self._llm: Any = _load(settings.target, arguments)
        _OPEN.add(self)
        self.config: Any = self._llm.llm_engine.vllm_config
        self.device = torch.device(str(self.config.device_config.device_type))
        self.max_length: int = self.config.model_config.max_model_len
        self.vocab_size: int = self.config.model_config.get_vocab_size()
        self.default_sampling: Mapping[str, Any] = (
            self.config.model_config.get_diff_sampling_param()
        )

    @property
    def block_size(self) -> int:
        """Tokens of a block of the prefix cache."""
        return int(self.config.cache_config.block_size)

    @property
    def cache_tokens(self) -> int:
        """Tokens that the KV cache holds."""
        n_blocks = self.config.cache_config.num_gpu_blocks or 1024
        return int(n_blocks) * self.block_size

    def run(
        self, requests: Iterable[EngineRequest], most: int = WAITING
    ) -> Iterator[list[EngineOutput]]:
        """Run requests, ``most`` at once; yields what finishes in the same step."""
        engine = self._llm.llm_engine
        todo = iter(requests)
        keys: dict[str, int] = {}
        try:
            while True:
                rejected = []
                for one in islice(todo, most - len(keys)):
                    name = str(next(self._names))
                    try:
                        prompt = one.prompt or {"prompt_token_ids": one.ids}
                        engine.add_request(name, prompt, one.params)
                    except rejections() as error:
                        why = f"vLLM rejects the request: {_first_line(error)}"
                        rejected.append(EngineOutput(one.key, None, why))
                    else:
                        keys[name] = one.key
                if rejected:
                    yield rejected
                elif not keys:
                    return
                done = [output for output in _step(engine) if output.finished]
                if done:
                    yield [EngineOutput(keys.pop(o.request_id), o) for o in done]
        finally:
            if keys:
                with suppress(Exception):  # the engine may have failed
                    engine.abort_request([*keys])

    def close(self) -> None:
        """Stop the engine and free its memory; it cannot be used afterwards."""
        if self not in _OPEN:
            return
        _OPEN.discard(self)
        engine, self._llm = self._llm.llm_engine, None
        with _quiet():
            engine.engine_core.shutdown()
            getattr(engine.renderer, "shutdown", lambda: None)()
            del engine
            _free()


def parsed_arguments(settings: VllmSettings) -> dict[str, Any]:
    """The engine arguments as values, parsed by the command line parser of vLLM, so
    that values are written as for ``vllm serve``."""
    with _quiet():
        prepare()
        from vllm.engine.arg_utils import EngineArgs
        from vllm.utils.argparse_utils import FlexibleArgumentParser

        parser = EngineArgs.add_cli_args(FlexibleArgumentParser(add_help=False))
        parser.error = _reject
        given = dict(settings.engine)
        if settings.tokens.tokenizer:
            given["tokenizer"] = path_of(settings.tokens.tokenizer)
        words = [word for item in given.items() for word in _words(parser, *item)]
        try:
            parsed = vars(parser.parse_args(words))
        except (argparse.ArgumentTypeError, TypeError, ValueError) as error:
            raise _rejected(_reason(error)) from None
    return {name: parsed[name] for name in {n.partition(".")[0] for n in given}}


def prepare() -> None:
    """Set the environment variables that vLLM reads when it is imported."""
    for name, value in _DEFAULTS.items():
        os.environ.setdefault(name, value)
    # vLLM 0.32 applies the level when an engine is made, and warns before that.
    with suppress(ValueError):  # vLLM rejects an unknown level
        logging.getLogger("vllm").setLevel(os.environ["VLLM_LOGGING_LEVEL"].upper())


def sampling_params(**arguments: Any) -> Any:
    """vLLM's ``SamplingParams`` that return the finished output only. Raises one
    of ``rejections`` if an argument does not exist, or is invalid."""
    from vllm.sampling_params import RequestOutputKind, SamplingParams

    kind = RequestOutputKind.FINAL_ONLY
    return SamplingParams(output_kind=kind, **arguments)


@cache
def rejections() -> tuple[type[Exception], ...]:
    """The exceptions with which vLLM rejects the parameters of a request."""
    from vllm import exceptions

    client_error = getattr(exceptions, "VLLMClientError", ValueError)
    return (OverflowError, TypeError, ValueError, client_error)


def structured_outputs(**arguments: Any) -> Any:
    """vLLM's constraint on an output, or one of ``rejections``."""
    from vllm.sampling_params import StructuredOutputsParams

    return StructuredOutputsParams(**arguments)


def sampling_names() -> tuple[str, ...]:
    """The names of all sampling parameters of vLLM."""
    from vllm.sampling_params import SamplingParams

    names: tuple[str, ...] = SamplingParams.__struct_fields__
    return tuple(name for name in names if not name.startswith("_"))


def _load(target: str, arguments: Mapping[str, Any]) -> Any:
    from vllm import LLM

    try:
        llm = LLM(path_of(target), **{"use_tqdm_on_load": False, **arguments})
        if llm.llm_engine.vllm_config.model_config.runner_type != "generate":
            raise ModelError(f"{target!r} does not generate text")
    except BaseException as error:
        with suppress(Exception):  # the first error is the one to show
            _free()
        if isinstance(error, EvalsError) or not isinstance(error, Exception):
            raise
        raise ModelError(
            f"cannot load the model {target!r} with vLLM: {_reason(error)}\n"
            "  fix: set VLLM_LOGGING_LEVEL=INFO to see vLLM's messages (with -s)"
        ) from error
    return llm


def _step(engine: Any) -> list[Any]:
    # The filters belong to all threads, so only the main thread may change them.
    is_main = threading.current_thread() is threading.main_thread()
    try:
        with _quiet() if is_main else nullcontext():
            outputs: list[Any] = engine.step()
    except Exception as error:
        raise ModelError(f"vLLM's engine failed: {_first_line(error)}") from error
    return outputs


def _free() -> None:
    from vllm.distributed.parallel_state import cleanup_dist_env_and_memory

    cleanup_dist_env_and_memory()


def _words(parser: Any, name: str, value: str) -> list[str]:
    """An argument as words of a command line."""
    option = f"--{name.replace('_', '-')}"
    action = parser._option_string_actions.get(option)
    if isinstance(action, argparse.BooleanOptionalAction):
        return [option if ARGUMENTS.flag(name, value) else f"--no-{option[2:]}"]
    if action is not None and action.nargs in ("+", "*"):
        return [option, *re.split(r"[\s,]+", value.strip("[] "))]
    return [f"{option}={value}"]


def _reject(message: str) -> None:
    raise _rejected(message)


def _rejected(message: str) -> OptionError:
    found = re.fullmatch(r"argument ([^:]*): (.*)", message, re.DOTALL)
    if not found:
        return OptionError(f"vLLM rejects the engine arguments: {message}")
    option = next(o for o in found[1].split("/") if o.startswith("--"))
    name = option[2:].replace("-", "_")
    return OptionError(f"vLLM rejects the vllm model's {name}: {_reason(found[2])}")


def _reason(error: Exception | str) -> str:
    """The cause, on one line. Errors of pydantic have it on their last lines."""
    lines = [line.strip() for line in str(error).strip().splitlines()]
    cause = next((line for line in lines if "[type=" in line), "")
    text = re.sub(r"\s*\[type=.*", "", cause).removeprefix("Value error, ")
    return masked_text(text) or _first_line(error)


def _first_line(error: BaseException | str) -> str:
    lines = str(error).strip().splitlines()
    return masked_text(lines[0]) if lines else type(error).__name__


@contextmanager
def _quiet() -> Iterator[None]:
    """Warnings of vLLM's libraries are not the user's."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@contextmanager
def _same_random_state() -> Iterator[None]:
    """Restore the random generators, which the engine seeds when it starts."""
    states = random.getstate(), np.random.get_state(), torch.get_rng_state()
    try:
        yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])
        torch.set_rng_state(states[2])
