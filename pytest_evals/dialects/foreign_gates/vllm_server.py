"""Suites from ``tests/evals`` of vLLM: a server, and gsm8k or GPQA."""

from __future__ import annotations

import json
from typing import Any

from pytest_evals.dialects.foreign_gates.nearest import GPQA
from pytest_evals.dialects.foreign_gates.suite import (
    Converted,
    ConvertedGate,
    UnconvertibleError,
    Values,
    command,
    expected,
    number,
    server_spec,
    words_of,
)

GSM8K_TOLERANCE = 0.08
"""``test_gsm8k_correctness.py``, without ``tolerance`` in the file."""
GPQA_TOLERANCE = 0.05
"""``test_gpqa_correctness.py``."""
_GSM8K_QUESTIONS = 1319
_SERVER_KEYS = frozenset(
    {
        "env",
        "request_timeout_seconds",
        "rocm_request_timeout_seconds",
        "server_args",
        "startup_max_wait_seconds",
    }
)


def convert_vllm_server(values: Values, folder: str, _: str) -> Converted:
    """``tests/evals`` of vLLM: a server, and gsm8k or GPQA.

    Rule: ``measured >= threshold - tolerance``.
    """
    if "accuracy_threshold" not in values:
        return _gpqa(values, folder)
    if "context_lengths" in values or "depths" in values:
        raise UnconvertibleError(
            "it is the needle test of long contexts, which has no data set"
        )
    threshold = number("accuracy_threshold", values["accuracy_threshold"])
    tolerance = number("tolerance", values.get("tolerance", GSM8K_TOLERANCE))
    task, what = _gsm8k_task(values), f"vLLM, at most {tolerance:g} below"
    entry = {"task": task["task"], "metric": "exact_match,last-number"}
    chat = bool(values.get("use_chat_completions"))
    questions = int(
        number("num_questions", values.get("num_questions", _GSM8K_QUESTIONS))
    )
    entry |= expected(threshold, tolerance, is_share=False, n=questions)
    suite = Converted(file=task)
    suite.gates.append(ConvertedGate(entry, f"{threshold:g}: {what}"))
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
    what = f"{threshold:g}: vLLM, at most {GPQA_TOLERANCE:g} below"
    suite.gates.append(ConvertedGate({**entry, "advisory": True}, what))
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
