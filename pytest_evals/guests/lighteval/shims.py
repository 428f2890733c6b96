"""Shims: the lighteval 0.13.0 modules that task modules may import, and their names.
:mod:`.modules` installs them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial, wraps
from importlib.util import find_spec
from string import ascii_uppercase
from types import SimpleNamespace
from typing import Any, ParamSpec, TypeVar

from pytest_evals.core.doc import Doc, as_list
from pytest_evals.core.threads import OvertimeError, time_limit
from pytest_evals.guests.lighteval import metrics_enum
from pytest_evals.guests.lighteval.config import (
    LightevalTaskConfig,
    TextGenerationInputGrammarType,
)
from pytest_evals.guests.lighteval.language import (
    MACROLANGUAGES,
    Language,
    manage_duplicate_language_codes,
    standardize_tag,
)
from pytest_evals.guests.lighteval.metrics import (
    choices,
    codegen,
    corpus,
    extraction,
    extractive_match,
    judges,
    matches,
    neural,
    normalizers,
    preparators,
    repeats,
    rouge,
)
from pytest_evals.guests.lighteval.metrics_enum import Metrics, extend_enum
from pytest_evals.guests.lighteval.templates import formulation, literals, questions
from pytest_evals.guests.lighteval.templates.formulation import (
    get_metrics_for_formulation,
    normalize_subset,
)
from pytest_evals.scorers.code_eval import pass_at_k
from pytest_evals.scorers.custom_metrics import aggregation, judged, metric, response
from pytest_evals.scorers.extraction import remove_reasoning_tags


def _names(module: Any, *names: str) -> dict[str, Any]:
    return {name: getattr(module, name) for name in names}


P = ParamSpec("P")
T = TypeVar("T")

CODEGEN = "lighteval.tasks.tasks.lcb.codegen_metrics"
"""The module that executes programs of LiveCodeBench."""
_HOME = "lighteval.tasks.templates"
_FUNCTIONS = {
    "boolq": ("BoolQ", questions.get_boolq_prompt_function),
    "continuation": ("Continuation", questions.get_continuation_prompt_function),
    "copa": ("COPA", questions.get_copa_prompt_function),
    "hellaswag": ("Hellaswag", questions.get_hellaswag_prompt_function),
    "multichoice": ("MCQ", questions.get_mcq_prompt_function),
    "nli": ("NLI", questions.get_nli_prompt_function),
    "qa": ("QA", questions.get_qa_prompt_function),
    "translation": ("Translation", questions.get_translation_prompt_function),
}
"""Module → start of the names of its types of dictionaries, and its function."""

TEMPLATES: Mapping[str, Mapping[str, Any]] = {
    **{
        f"{_HOME}.{module}": {
            function.__name__: function,
            **{f"{kind}{end}": dict for end in ("Input", "Adapter", "DictAdapter")},
        }
        for module, (kind, function) in _FUNCTIONS.items()
    },
    f"{_HOME}.utils.formatting_utils": _names(literals, "capitalize", "decapitalize"),
    f"{_HOME}.utils.formulation": {
        name: getattr(formulation, name) for name in formulation.__all__
    },
    f"{_HOME}.utils.translation_literals": _names(
        literals, "TRANSLATION_LITERALS", "TranslationLiterals"
    ),
}
"""Module → its names."""


class Placeholder:
    """Accepts every call and has every attribute, so that it can replace modules,
    functions, decorators, annotations and base classes."""

    def __init__(self, *_arguments: Any, **_more: Any) -> None:
        pass

    def __call__(self, *_arguments: Any, **_more: Any) -> Placeholder:
        """Return another placeholder."""
        return Placeholder()

    def __getattr__(self, name: str) -> Placeholder:
        """Return another placeholder."""
        if name.startswith("__"):
            raise AttributeError(name)
        return Placeholder()

    __getitem__ = __or__ = __ror__ = __call__


def safe_divide(numerator: Any, denominator: float, default_value: float = 0.0) -> Any:
    """Divide an array by a number; return the default everywhere if the number is 0."""
    import numpy as np

    if denominator == 0:
        return np.full_like(numerator, default_value, dtype=float)
    return numerator / denominator


def timeout(timeout_seconds: int = 10) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """A decorator that raises ``TimeoutError`` after that time; only in the main thread
    of systems with timers."""

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        @wraps(function)
        def limited(*arguments: P.args, **more: P.kwargs) -> T:
            in_main = threading.current_thread() is threading.main_thread()
            try:
                with time_limit(timeout_seconds if in_main else 0):
                    return function(*arguments, **more)
            except OvertimeError:
                message = "the time limit of lighteval.utils.timeout is over"
                raise TimeoutError(message) from None

        return limited

    return decorate


def is_package_available(package: Any) -> bool:
    """Whether a library is installed; always true for lighteval's extras."""
    return not isinstance(package, str) or find_spec(package) is not None


_BACKENDS = ("accelerate", "litellm", "openai", "peft", "sglang", "spacy", "vllm")
"""Libraries for which earlier releases have a function."""


def requires(*packages: Any) -> Callable[[T], T]:
    """A decorator without effect: missing packages raise an error on first use."""
    return lambda made: made


_CLASSES = {
    name: value
    for name, value in vars(metric).items()
    if getattr(value, "__module__", "") == metric.__name__
    and isinstance(value, type)
    and not name.startswith("_")
}
_LEGACY_CATEGORIES = SimpleNamespace(
    GENERATIVE=metric.SamplingMethod.GENERATIVE,
    GENERATIVE_LOGPROB=metric.SamplingMethod.GENERATIVE,
    GENERATIVE_SAMPLING=metric.SamplingMethod.GENERATIVE,
    IGNORED=metric.IGNORED,
    LLM_AS_JUDGE=metric.SamplingMethod.GENERATIVE,
    LLM_AS_JUDGE_MULTI_TURN=metric.SamplingMethod.GENERATIVE,
    MULTICHOICE=metric.SamplingMethod.LOGPROBS,
    MULTICHOICE_ONE_TOKEN=metric.SamplingMethod.LOGPROBS,
    MULTICHOICE_PMI=metric.SamplingMethod.LOGPROBS,
    PERPLEXITY=metric.SamplingMethod.PERPLEXITY,
    TARGET_PERPLEXITY=metric.SamplingMethod.LOGPROBS,
)
"""``MetricCategory`` of earlier releases."""


class _AnyName:
    """``MetricUseCase`` of earlier releases, and ``Extra``: attributes are names."""

    def __getattr__(self, name: str) -> str:
        if name.startswith("__"):
            raise AttributeError(name)
        return name


_METRIC_CLASSES = {
    **_CLASSES,
    "MetricCategory": _LEGACY_CATEGORIES,
    "MetricUseCase": _AnyName(),
}
_COMPUTATIONS = (
    (choices, "MRR", "AccGoldLikelihood", "LoglikelihoodAcc", "best_choice"),
    (choices, "NormalizedMultiChoiceProbability", "Probability", "Recall"),
    (choices, "TruthfulqaMCMetrics", "gold_indices"),
    (judges, "JudgeLLM", "JudgeLLMHLE", "JudgeLLMMTBench", "JudgeLLMMixEval"),
    (judges, "JudgeLLMSimpleQA"),
    (judged, "JudgeLM"),
    (matches, "DropMetrics", "ExactMatches", "F1_score", "StringDistance"),
    (metric, "SampleLevelComputation"),
    (metrics_enum, "MajAtK"),
    (neural, "BLEURT", "BertScore", "Faithfulness"),
    (repeats, "AvgAtN", "GPassAtK", "MajAtN", "PassAtK", "SamplingMetric"),
    (rouge, "BLEU", "ROUGE", "Extractiveness", "SourceMetric", "fragment_lengths"),
    (response, "ModelResponse"),
)
_SAMPLE = {"Doc": Doc} | {
    name: getattr(home, str(name)) for home, *names in _COMPUTATIONS for name in names
}
_CORPUS = {
    **_names(corpus, "CorpusLevelF1Score", "CorpusLevelPerplexityMetric"),
    **_names(corpus, "CorpusLevelTranslationMetric", "FlatMean", "MatthewsCorrCoef"),
    **_names(corpus, "matthews_corrcoef"),
    **_names(metric, "CorpusLevelComputation"),
}
_PREPARATORS = {
    **_names(aggregation, "GenerativeCorpusMetricInput", "NamedPair"),
    **_names(metric, "Preparator"),
    **_names(preparators, "CorpusMetricInput", "LogprobCorpusMetricInput"),
    **_names(preparators, "GenerativePreparator", "LoglikelihoodPreparator"),
    **_names(preparators, "PerplexityCorpusMetricInput", "PerplexityPreparator"),
    **_names(preparators, "TargetPerplexityPreparator", "count_units"),
}
_NORMALIZERS = {
    **{name: normalizers.NORMALIZERS[name] for name in normalizers.NORMALIZERS},
    **_names(choices, "LogProbCharNorm", "LogProbNormalization", "LogProbPMINorm"),
    **_names(choices, "LogProbTokenNorm", "normalize_log_probs"),
    **_names(normalizers, "get_multilingual_normalizer", "remove_articles"),
}
_DYNAMIC = {
    **{k: v for k, v in vars(metrics_enum).items() if k.lower().endswith("metric")},
    "ExtractionTarget": Any,
    **_names(extraction, "ExprExtractionConfig", "IndicesExtractionConfig"),
    **_names(extraction, "LatexExtractionConfig"),
    **_names(extractive_match, "extract_target_from_pred", "get_extraction_regexes"),
}
_JUDGES = _names(judged, "JudgeLM", "dict_of_lists_to_list_of_dicts")
_TASK = {
    "LightevalTaskConfig": LightevalTaskConfig,
    "TextGenerationInputGrammarType": TextGenerationInputGrammarType,
}
_LETTERS = {"LETTER_INDICES": list(ascii_uppercase)}
_REQUESTS = {"Doc": Doc, "SamplingMethod": metric.SamplingMethod}

_MODULES: Mapping[str, Mapping[str, Any]] = {
    "aenum": {"extend_enum": extend_enum},
    "langcodes": {"standardize_tag": standardize_tag},
    "lighteval.logging.hierarchical_logger": {
        "hlog": logging.info,
        "hlog_err": logging.error,
        "hlog_warn": logging.warning,
    },
    "lighteval.metrics.dynamic_metrics": _DYNAMIC,
    "lighteval.metrics.llm_as_judge": _JUDGES,
    "lighteval.metrics.metrics": {
        "Metrics": Metrics,
        **_METRIC_CLASSES,
        **_SAMPLE,
        **_CORPUS,
        **_DYNAMIC,
        # Scorers of inspect-ai; unused.
        "math_scorer": Placeholder(),
        "multichoice_scorer": Placeholder(),
    },
    "lighteval.metrics.metrics_corpus": _CORPUS,
    "lighteval.metrics.metrics_sample": _SAMPLE,
    "lighteval.metrics.normalizations": _NORMALIZERS,
    "lighteval.metrics.sample_preparator": _PREPARATORS,
    "lighteval.metrics.utils.extractive_match_utils": _DYNAMIC,
    "lighteval.metrics.utils.llm_as_judge": _JUDGES,
    "lighteval.metrics.utils.math_comparison": _names(
        extractive_match, "compare_gold_target", "sympy_expr_eq"
    ),
    "lighteval.metrics.utils.metric_utils": _METRIC_CLASSES,
    "lighteval.models.model_output": dict.fromkeys(
        (
            "ModelResponse",
            # Annotations of earlier releases.
            "GenerativeMultiturnResponse",
            "GenerativeResponse",
            "LoglikelihoodResponse",
            "LoglikelihoodSingleTokenResponse",
        ),
        response.ModelResponse,
    ),
    "lighteval.tasks.extended": {},
    "lighteval.tasks.default_prompts": _LETTERS,
    "lighteval.tasks.lighteval_task": {**_TASK, **_REQUESTS},
    "lighteval.tasks.requests": _REQUESTS,
    "lighteval.tasks.multilingual.utils.task_utils": {
        "get_metrics_for_formulation": get_metrics_for_formulation,
        "normalize_subset": normalize_subset,
    },
    CODEGEN: {
        "estimate_pass_at_k": pass_at_k,
        **_names(codegen, "codegen_metrics", "extract_code"),
        **_names(codegen, "translate_private_test_cases"),
    },
    "lighteval.tasks.tasks_prompt_formatting": _LETTERS,
    **TEMPLATES,
    "lighteval.utils.imports": {
        "Extra": _AnyName(),
        "is_package_available": is_package_available,
        "requires": requires,
        "requires_latex2sympy2_extended": requires(),
        "can_load_extended_tasks": lambda: True,
        **{
            f"is_{name}_available": partial(is_package_available, name)
            for name in _BACKENDS
        },
    },
    "lighteval.utils.language": {
        "Language": Language,
        "iso_639_3_ind_to_iso_639_3_macro": MACROLANGUAGES,
        "manage_duplicate_language_codes": manage_duplicate_language_codes,
    },
    "lighteval.utils.timeout": {"timeout": timeout},
    "lighteval.utils.utils": {
        "ListLike": Sequence,
        "as_list": as_list,
        "remove_reasoning_tags": remove_reasoning_tags,
        "safe_divide": safe_divide,
    },
}
NAMES: Mapping[str, Mapping[str, Any]] = {
    **{
        module[:at]: {}
        for module in _MODULES
        for at, sign in enumerate(module)
        if sign == "."
    },
    **_MODULES,
}
"""Module → its names, also of the packages that contain one."""


def find_export(module: str, name: str) -> Any:
    """Look up a name that a module imports from another module of its package.

    lighteval's modules import names from each other, and task modules import them from
    any of these. ``None`` if no module defines the name.
    """
    package, _, _ = module.partition(".")
    if module not in NAMES:
        return None
    homes = (NAMES[home] for home in NAMES if home.partition(".")[0] == package)
    return next((home[name] for home in homes if name in home), None)
