"""Benchmarks of language models as pytest suites.

The public names, resolved when they are first used: importing the package costs
nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_evals.api import evaluate
    from pytest_evals.core.case import Case, case
    from pytest_evals.core.dialogue import Ask, Exchange, ReadAsk
    from pytest_evals.core.doc import Doc
    from pytest_evals.core.gate import Bound, Gate, Verdict
    from pytest_evals.core.metric import Estimate, Metric, MetricResult
    from pytest_evals.core.model import Model
    from pytest_evals.core.model_results import ModelResults
    from pytest_evals.core.record import Record, Score
    from pytest_evals.core.request import (
        Generate,
        Loglikelihood,
        Message,
        Response,
        Rolling,
    )
    from pytest_evals.core.result import RunResult, TaskResult
    from pytest_evals.core.task import Asked, Task, TaskOptions
    from pytest_evals.dialects.native.python import Eval, eval  # noqa: A004
    from pytest_evals.errors import (
        DocumentError,
        EvalsError,
        ModelError,
        OptionError,
        Place,
        StoreError,
        TaskFileError,
    )
    from pytest_evals.gates.scores import judge_gate, judge_gates
    from pytest_evals.plugin.eval_results import EvalResults, assert_gate
    from pytest_evals.sandbox.runner import CodeResult
    from pytest_evals.sandbox.session import run_code
    from pytest_evals.scorers.answers import (
        contains,
        exact,
        json,
        regex,
        similar,
        starts_with,
    )
    from pytest_evals.scorers.claims import (
        answer_relevance,
        context_relevance,
        faithfulness,
    )
    from pytest_evals.scorers.contexts import (
        context_precision,
        context_recall,
        mrr,
        ndcg,
    )
    from pytest_evals.scorers.custom_metrics.judged import JudgeLLM
    from pytest_evals.scorers.custom_metrics.metric import (
        CorpusLevelMetric,
        CorpusLevelMetricGrouping,
        SampleLevelMetric,
        SampleLevelMetricGrouping,
        SamplingMethod,
    )
    from pytest_evals.scorers.custom_metrics.response import ModelResponse
    from pytest_evals.scorers.goal import goal_reached
    from pytest_evals.scorers.pairs import pairwise
    from pytest_evals.scorers.rubric import judge
    from pytest_evals.scorers.semantic import semantic
    from pytest_evals.scorers.spending import max_cost, max_latency, max_output_tokens
    from pytest_evals.scorers.tool_calls import (
        call_order,
        called,
        max_calls,
        no_tool_calls,
        not_called,
        tool_arguments,
        tool_calls,
        tool_f1,
        tool_names,
    )
    from pytest_evals.scorers.values import contains_json, equals, json_path

_MODULES = {
    "core.case": ("Case", "case"),
    "core.dialogue": ("Ask", "Exchange", "ReadAsk"),
    "core.doc": ("Doc",),
    "core.gate": ("Bound", "Gate", "Verdict"),
    "core.metric": ("Estimate", "Metric", "MetricResult"),
    "core.model": ("Model",),
    "core.model_results": ("ModelResults",),
    "core.record": ("Record", "Score"),
    "core.request": ("Generate", "Loglikelihood", "Message", "Response", "Rolling"),
    "core.result": ("RunResult", "TaskResult"),
    "core.task": ("Asked", "Task", "TaskOptions"),
    "dialects.native.python": ("Eval", "eval"),
    "errors": (
        "DocumentError",
        "EvalsError",
        "ModelError",
        "OptionError",
        "Place",
        "StoreError",
        "TaskFileError",
    ),
    "gates.scores": ("judge_gate", "judge_gates"),
    "plugin.eval_results": ("EvalResults", "assert_gate"),
    "sandbox.runner": ("CodeResult",),
    "sandbox.session": ("run_code",),
    "scorers.answers": ("contains", "exact", "json", "regex", "similar", "starts_with"),
    "scorers.custom_metrics.judged": ("JudgeLLM",),
    "scorers.custom_metrics.metric": (
        "CorpusLevelMetric",
        "CorpusLevelMetricGrouping",
        "SampleLevelMetric",
        "SampleLevelMetricGrouping",
        "SamplingMethod",
    ),
    "scorers.custom_metrics.response": ("ModelResponse",),
    "scorers.pairs": ("pairwise",),
    "scorers.goal": ("goal_reached",),
    "scorers.rubric": ("judge",),
    "scorers.claims": ("answer_relevance", "context_relevance", "faithfulness"),
    "scorers.contexts": ("context_precision", "context_recall", "mrr", "ndcg"),
    "scorers.semantic": ("semantic",),
    "scorers.spending": ("max_cost", "max_latency", "max_output_tokens"),
    "scorers.tool_calls": (
        "call_order",
        "called",
        "max_calls",
        "no_tool_calls",
        "not_called",
        "tool_arguments",
        "tool_calls",
        "tool_f1",
        "tool_names",
    ),
    "scorers.values": ("contains_json", "equals", "json_path"),
    "api": ("evaluate",),
}

__all__ = [
    "Ask",
    "Asked",
    "Bound",
    "Case",
    "CodeResult",
    "CorpusLevelMetric",
    "CorpusLevelMetricGrouping",
    "Doc",
    "DocumentError",
    "Estimate",
    "Eval",
    "EvalResults",
    "EvalsError",
    "Exchange",
    "Gate",
    "Generate",
    "JudgeLLM",
    "Loglikelihood",
    "Message",
    "Metric",
    "MetricResult",
    "Model",
    "ModelError",
    "ModelResponse",
    "ModelResults",
    "OptionError",
    "Place",
    "ReadAsk",
    "Record",
    "Response",
    "Rolling",
    "RunResult",
    "SampleLevelMetric",
    "SampleLevelMetricGrouping",
    "SamplingMethod",
    "Score",
    "StoreError",
    "Task",
    "TaskFileError",
    "TaskOptions",
    "TaskResult",
    "Verdict",
    "answer_relevance",
    "assert_gate",
    "call_order",
    "called",
    "case",
    "contains",
    "contains_json",
    "context_precision",
    "context_recall",
    "context_relevance",
    "equals",
    "eval",
    "evaluate",
    "exact",
    "faithfulness",
    "goal_reached",
    "json",
    "json_path",
    "judge",
    "judge_gate",
    "judge_gates",
    "max_calls",
    "max_cost",
    "max_latency",
    "max_output_tokens",
    "mrr",
    "ndcg",
    "no_tool_calls",
    "not_called",
    "pairwise",
    "regex",
    "run_code",
    "semantic",
    "similar",
    "starts_with",
    "tool_arguments",
    "tool_calls",
    "tool_f1",
    "tool_names",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    __tracebackhide__ = True  # pytest shows the user's line only
    for module, names in _MODULES.items():
        if name in names:
            value = getattr(import_module(f"{__name__}.{module}"), name)
            globals()[name] = value
            return value
    from pytest_evals.errors import did_you_mean

    hint = did_you_mean(name, [one for names in _MODULES.values() for one in names])
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint}")
