"""Shims of lighteval's template modules, and their names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pytest_evals.dialects.lighteval.templates import (
    continuation,
    formulation,
    literals,
    multiple_choice,
    nli,
)

_HOME = "lighteval.tasks.templates"
_FUNCTIONS = {
    "boolq": multiple_choice.get_boolq_prompt_function,
    "continuation": continuation.get_continuation_prompt_function,
    "copa": continuation.get_copa_prompt_function,
    "hellaswag": continuation.get_hellaswag_prompt_function,
    "multichoice": multiple_choice.get_mcq_prompt_function,
    "nli": nli.get_nli_prompt_function,
    "qa": multiple_choice.get_qa_prompt_function,
    "translation": continuation.get_translation_prompt_function,
}
"""Module → the function that it defines."""

TEMPLATES: Mapping[str, Mapping[str, Any]] = {
    _HOME: {},
    **{
        f"{_HOME}.{module}": {function.__name__: function}
        for module, function in _FUNCTIONS.items()
    },
    f"{_HOME}.utils": {},
    f"{_HOME}.utils.formatting_utils": {
        "capitalize": literals.capitalize,
        "decapitalize": literals.decapitalize,
    },
    f"{_HOME}.utils.formulation": {
        name: getattr(formulation, name) for name in formulation.__all__
    },
    f"{_HOME}.utils.translation_literals": {
        "TRANSLATION_LITERALS": literals.TRANSLATION_LITERALS,
        "TranslationLiterals": literals.TranslationLiterals,
    },
}
"""Module → its names."""
