"""lighteval's templates beyond the recorded cases (``tests/parity/vectors``)."""

from __future__ import annotations

import pytest

from pytest_evals.errors import EvalsError
from pytest_evals.guests.lighteval.language import Language
from pytest_evals.guests.lighteval.templates.formulation import (
    CFFormulation,
    HybridFormulation,
    MCFFormulation,
    get_metrics_for_formulation,
)
from pytest_evals.guests.lighteval.templates.literals import (
    TRANSLATION_LITERALS,
    TranslationLiterals,
)
from pytest_evals.guests.lighteval.templates.questions import (
    get_continuation_prompt_function,
    get_copa_prompt_function,
    get_hellaswag_prompt_function,
    get_mcq_prompt_function,
    get_nli_prompt_function,
    get_qa_prompt_function,
    get_translation_prompt_function,
)

EN = Language.ENGLISH


def same(row):
    return row


@pytest.mark.parametrize(
    ("function", "row", "query"),
    [
        (
            get_copa_prompt_function(EN, same, CFFormulation()),
            {
                "cause_effect": "effect",
                "context": "He fell.",
                "continuations": ["ow"],
                "gold_idx": 0,
            },
            "Do it.\nHe fell therefore",
        ),
        (
            get_hellaswag_prompt_function(EN, same, CFFormulation()),
            {"ctx_a": "He fell", "continuations": ["ow"], "gold_idx": 0},
            "Do it.\nHe fell",
        ),
        (
            get_nli_prompt_function(
                EN, same, ["entailment", "contradiction"], HybridFormulation()
            ),
            {"premise": "He fell.", "hypothesis": "He is up.", "gold_idx": 1},
            "Do it.\nHe fell.\nQuestion: He is up True or False?\nAnswer:",
        ),
        (
            get_translation_prompt_function(EN, Language.GERMAN, same, CFFormulation()),
            {"source_text": "hello", "target_text": "hallo"},
            "Do it.\nEN: Hello DE:",
        ),
    ],
    ids=["copa", "hellaswag", "nli", "translation"],
)
def test_an_instruction_precedes_every_template(function, row, query):
    """lighteval drops it in these four templates."""
    doc = function({**row, "instruction": "Do it."}, "t")
    assert doc.query == query and doc.query.startswith(doc.instruction)


def test_several_answers_are_all_right_and_keep_their_order():
    prompt = get_qa_prompt_function(EN, {"question": "q", "choices": "a"})
    doc = prompt({"q": "who?", "a": ["c", "b", "c", "a"]}, "t")
    assert doc.get_golds() == [" C", " B", " A"]


def test_a_row_whose_continuation_is_nothing_but_markup_is_skipped():
    prompt = get_hellaswag_prompt_function(EN, same)
    assert prompt({"ctx_a": "x", "continuations": ["[a]"], "gold_idx": 0}, "t") is None


def test_a_row_without_a_column_of_the_adapter_is_reported():
    prompt = get_mcq_prompt_function(EN, {"question": "q"})
    with pytest.raises(
        EvalsError, match="no column 'q' for 'question'; its columns are p"
    ):
        prompt({"p": 1, "__index": 0}, "t")


@pytest.mark.parametrize(
    ("prompt", "name"),
    [
        (get_mcq_prompt_function(EN, same), "question"),
        (get_copa_prompt_function(EN, same), "cause_effect"),
        (get_nli_prompt_function(EN, same, ["entailment"]), "premise"),
        (get_qa_prompt_function(EN, same), "choices"),
    ],
    ids=["mcq", "copa", "nli", "qa"],
)
def test_a_null_that_a_template_needs_is_reported(prompt, name):
    """Without lighteval's check some templates would omit the part or treat null as
    false."""
    row = {
        "question": "who?",
        "choices": ["a"],
        "context": "x",
        "continuations": ["y"],
        "cause_effect": "cause",
        "premise": "p",
        "hypothesis": "h",
        "gold_idx": 0,
    }
    assert prompt({**row, "instruction": None}, "t") is not None
    with pytest.raises(EvalsError, match=f"'{name}' must not be null"):
        prompt({**row, name: None}, "t")


def test_a_language_without_words_is_reported_and_may_be_added(monkeypatch):
    row = {"context": "x", "continuations": ["y"], "gold_idx": 0}
    prompt = get_continuation_prompt_function(Language.ZULU, same, MCFFormulation())
    with pytest.raises(EvalsError, match="'answer' is not defined for language 'zul'"):
        prompt(row, "t")
    words = TranslationLiterals(Language.ZULU, answer="impendulo")
    monkeypatch.setitem(TRANSLATION_LITERALS, Language.ZULU, words)
    assert prompt(row, "t").query == "X\n A. y\nImpendulo:"
    nli = get_nli_prompt_function(Language.ZULU, same, ["entailment"])
    with pytest.raises(
        EvalsError, match=r"the word 'true' is not defined for language 'zul'"
    ):
        nli({"premise": "x", "hypothesis": "y", "gold_idx": 0}, "t")


def test_letters_as_answers_are_measured_by_plain_accuracy():
    given = ["anything"]
    (metric,) = get_metrics_for_formulation(MCFFormulation(), given)
    assert metric.names == ("acc",)
    assert get_metrics_for_formulation(MCFFormulation("Numbers"), given) == given
    assert get_metrics_for_formulation(CFFormulation(), given) == given
