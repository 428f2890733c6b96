"""Suites from files with a server: ``tests/evals`` of vLLM with gsm8k or GPQA, and
``test/ci/eval`` of TokenSpeed with evalscope."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Sequence
from itertools import takewhile
from typing import Any
from urllib.parse import urlsplit

from pytest_evals.dialects.foreign_gates.suite import (
    GPQA,
    Converted,
    ConvertedGate,
    UnconvertibleError,
    Values,
    command,
    expected,
    nearest,
    number,
    server_spec,
    words_of,
)

GSM8K_TOLERANCE = 0.08
"""``test_gsm8k_correctness.py``, without ``tolerance`` in the file."""
GPQA_TOLERANCE = 0.05  # ``test_gpqa_correctness.py``
_GSM8K_QUESTIONS = 1319
_SERVER_KEYS = (
    "env", "request_timeout_seconds", "rocm_request_timeout_seconds", "server_args",
    "startup_max_wait_seconds",
)  # fmt: skip


def convert_vllm_server(values: Values, folder: str, _: str) -> Converted:
    """``tests/evals`` of vLLM: a server, and gsm8k or GPQA. Rule: ``measured >=
    threshold - tolerance``."""
    if "accuracy_threshold" not in values:
        return _gpqa(values, folder)
    if "context_lengths" in values or "depths" in values:
        raise UnconvertibleError(
            "it is the needle test of long contexts, which has no data set"
        )
    threshold = number("accuracy_threshold", values["accuracy_threshold"])
    tolerance = number("tolerance", values.get("tolerance", GSM8K_TOLERANCE))
    task, message = _gsm8k_task(values), f"vLLM, at most {tolerance:g} below"
    entry = {"task": task["task"], "metric": "exact_match,last-number"}
    chat = bool(values.get("use_chat_completions"))
    questions = int(
        number("num_questions", values.get("num_questions", _GSM8K_QUESTIONS))
    )
    entry |= expected(threshold, tolerance, is_share=False, n=questions)
    suite = Converted(file=task)
    suite.gates.append(ConvertedGate(entry, f"{threshold:g}: {message}"))
    run: dict[str, Any] = {"apply_chat_template": chat, "fewshot_as_multiturn": False}
    if questions < _GSM8K_QUESTIONS:
        run["limit"] = questions
    suite.commands.append(command(_vllm_server(values), run, folder))
    read = {"model_name", "accuracy_threshold", "tolerance", "num_questions"}
    read |= {"num_fewshot", "max_tokens", "temperature", "gen_prefix", "seed"}
    read |= {"use_chat_completions", "max_concurrency", *_SERVER_KEYS}
    suite.list_others(values, read)
    return suite


def _gpqa(values: Values, folder: str) -> Converted:
    threshold = number("metric_threshold", values["metric_threshold"])
    suite = Converted()
    suite.add_task(GPQA.task)
    entry = {**GPQA._asdict(), **expected(threshold, GPQA_TOLERANCE, is_share=False)}
    message = f"{threshold:g}: vLLM, at most {GPQA_TOLERANCE:g} below"
    suite.gates.append(ConvertedGate({**entry, "advisory": True}, message))
    suite.left_out.append(
        "prompts of gpt_oss.evals: the suite has lm-eval's, so its gate is advisory"
    )
    suite.commands.append(
        command(_vllm_server(values), {"apply_chat_template": True}, folder)
    )
    suite.list_others(values, {"model_name", "metric_threshold", *_SERVER_KEYS})
    return suite


def _vllm_server(values: Values) -> str:
    words = words_of(values.get("server_args"))
    words += ["--trust-remote-code", "--disable-uvicorn-access-log"]
    spec = server_spec(str(values["model_name"]), words, values.get("env") or {})
    if "startup_max_wait_seconds" in values:
        spec += f",startup_timeout={values['startup_max_wait_seconds']}"
    if values.get("max_concurrency"):
        spec += f",concurrency={values['max_concurrency']}"
    return spec


def _gsm8k_task(values: Values) -> dict[str, Any]:
    """gsm8k as ``gsm8k_eval.py`` prompts and scores it: the first training questions as
    examples, and the last number of the answer."""
    prefix = str(values.get("gen_prefix") or "")
    shown = f"{{{{ {json.dumps(prefix)} }}}}" if prefix else ""
    return {
        "task": "gsm8k_vllm",
        "dataset_path": "openai/gsm8k",
        "dataset_name": "main",
        "output_type": "generate_until",
        "training_split": "train",
        "fewshot_split": "train",
        "test_split": "test",
        "num_fewshot": int(number("num_fewshot", values.get("num_fewshot", 5))),
        "fewshot_config": {"sampler": "first_n"},
        "doc_to_text": f"Question: {{{{question}}}}\nAnswer:{shown}",
        "doc_to_target": "{{answer}}",
        "generation_kwargs": {
            "until": ["Question", "Assistant:", "<|separator|>"],
            "max_gen_toks": int(number("max_tokens", values.get("max_tokens", 256))),
            "temperature": number("temperature", values.get("temperature") or 0.0),
        },
        "filter_list": [
            {
                "name": "last-number",
                "filter": [
                    {
                        "function": "regex",
                        "regex_pattern": r"(\d[\d,]*)",
                        "group_select": -1,
                    },
                    {"function": "take_first"},
                ],
            }
        ],
        "metric_list": [
            {
                "metric": "exact_match",
                "aggregation": "mean",
                "higher_is_better": True,
                "regexes_to_ignore": [",", "(?s).*#### ", "-"],
            }
        ],
    }


_READ_OPTIONS = (
    "--api-key", "--api-url", "--datasets", "--eval-batch-size", "--eval-type",
    "--limit", "--model", "--model-id", "--stream", "--timeout", "--work-dir",
)  # fmt: skip
"""Options of evalscope that are converted, or change no score."""


def convert_tokenspeed(values: Values, folder: str, _: str) -> Converted:
    """``test/ci/eval`` of TokenSpeed: a server, evalscope, and ``score_threshold``."""
    if values.get("score_threshold") is None:
        raise UnconvertibleError("it has no score_threshold")
    threshold = number("score_threshold", values["score_threshold"])
    text = str((values.get("eval") or {}).get("command") or "")
    try:
        words = shlex.split(text)
    except ValueError as error:
        message = f"its eval.command cannot be split: {error}"
        raise UnconvertibleError(message) from None
    if not any(re.fullmatch(r"(.*/)?evalscope(\.\w+)?", one) for one in words):
        raise UnconvertibleError("its eval.command is not evalscope")
    names = _after(words, "--datasets")
    if len(names) != 1:
        raise UnconvertibleError(
            f"its eval.command has {len(names)} data sets, not one"
        )
    task = nearest(names[0])
    suite = Converted()
    suite.add_task(task.task)
    entry = {**task._asdict(), "min": threshold, "advisory": True}
    suite.gates.append(ConvertedGate(entry, f"{threshold:g}: TokenSpeed"))
    suite.left_out.append(
        "prompts of evalscope: the suite has lm-eval's, so its gate is advisory"
    )
    options = dict.fromkeys(
        one.partition("=")[0] for one in words if one.startswith("--")
    )
    suite.left_out += [
        f"{one} {' '.join(_after(words, one))}"
        for one in options
        if one not in _READ_OPTIONS
    ]
    run: dict[str, Any] = {"apply_chat_template": True}
    if limit := _after(words, "--limit"):
        run["limit"] = limit[0]
    suite.commands.append(command(_tokenspeed_server(values, suite), run, folder))
    return suite


def _tokenspeed_server(values: Values, suite: Converted) -> str:
    server = values.get("server") or {}
    text = " ".join(str(server.get("command") or "").split())
    ready, variables = server.get("ready") or {}, dict(values.get("env") or {})
    runner = values.get("runner")
    own_variables = runner.get("env") if isinstance(runner, dict) else None
    for label, environment in (own_variables or {}).items():
        suite.left_out.append(f"runner.env of {label}: {json.dumps(environment)}")
    if not text:
        raise UnconvertibleError("it has no server.command")
    spec, changed = re.subn(r"(--port[ =])\d+", r"\1{port}", text)
    if not changed:
        suite.left_out.append("server.command has no --port: add --port {port}")
    if re.search(r"[$;|&`]", text):
        spec = f"bash -c {shlex.quote(spec)}"
    names = [f"{key}={shlex.quote(str(value))}" for key, value in variables.items()]
    spec = " ".join([*names, spec])
    if path := urlsplit(str(ready.get("url") or "")).path:
        spec += f",ready={path}"
    if "timeout" in ready:
        spec += f",startup_timeout={ready['timeout']}"
    return spec


def _after(words: Sequence[str], option: str) -> list[str]:
    """The values of an option, up to the next one."""
    found: list[str] = []
    for start, word in enumerate(words):
        if word.startswith(f"{option}="):
            found.append(word.partition("=")[2])
        elif word == option:
            found += takewhile(lambda one: not one.startswith("--"), words[start + 1 :])
    return found
