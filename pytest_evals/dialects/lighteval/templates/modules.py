"""Which modules of lighteval's templates have a stand-in, and what is in them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pytest_evals.dialects.lighteval.templates import continuation as continuing
from pytest_evals.dialects.lighteval.templates import formulation
from pytest_evals.dialects.lighteval.templates import literals as wording
from pytest_evals.dialects.lighteval.templates import multiple_choice as choosing
from pytest_evals.dialects.lighteval.templates import nli as entailing

_HOME = "lighteval.tasks.templates"
_FUNCTIONS = {
    "boolq": choosing.get_boolq_prompt_function,
    "continuation": continuing.get_continuation_prompt_function,
    "copa": continuing.get_copa_prompt_function,
    "hellaswag": continuing.get_hellaswag_prompt_function,
    "multichoice": choosing.get_mcq_prompt_function,
    "nli": entailing.get_nli_prompt_function,
    "qa": choosing.get_qa_prompt_function,
    "translation": continuing.get_translation_prompt_function,
}
"""Module → the function that it is there for."""

TEMPLATES: Mapping[str, Mapping[str, Any]] = {
    _HOME: {},
    **{
        f"{_HOME}.{module}": {function.__name__: function}
        for module, function in _FUNCTIONS.items()
    },
    f"{_HOME}.utils": {},
    f"{_HOME}.utils.formatting_utils": {
        "capitalize": wording.capitalize,
        "decapitalize": wording.decapitalize,
    },
    f"{_HOME}.utils.formulation": {
        name: getattr(formulation, name) for name in formulation.__all__
    },
    f"{_HOME}.utils.translation_literals": {
        "TRANSLATION_LITERALS": wording.TRANSLATION_LITERALS,
        "TranslationLiterals": wording.TranslationLiterals,
    },
}
"""Module → its names."""
