"""Filters compared with lm-eval's, and their error messages.

``lm_eval_filters.json`` contains lm-eval 0.4.13's results for fixed and random
responses (see its ``source``); nothing in it comes from this package.
"""

import json
from pathlib import Path

import pytest

from pytest_evals.core.registry import UnknownNameError
from pytest_evals.errors import DocumentError, EvalsError
from pytest_evals.scorers.filters import (
    FILTERS,
    TAKE_FIRST,
    FilterStep,
    ignored_arguments,
    pipeline,
)

RECORDED = json.loads((Path(__file__).parent / "lm_eval_filters.json").read_text())

NUMBER = r"(-?[$0-9.,]{2,})|(-?[0-9]+)"


def step(function, **arguments):
    return FilterStep(function=function, arguments=arguments)


def built(case):
    return pipeline("x", [step(**described) for described in case["steps"]])


def test_every_recorded_pipeline_gives_lm_evals_result():
    cases = [case for case in RECORDED["cases"] if "out" in case]
    assert len(cases) > 300
    for case in cases:
        made = built(case).apply(case["responses"], case["row"])
        assert list(made) == case["out"], case


def test_responses_that_lm_eval_cannot_filter_are_errors_of_their_documents():
    """Except for a response that is not a string, which multi_choice_regex treats as
    empty."""
    cases = [case for case in RECORDED["cases"] if "error" in case]
    kept = [case for case in cases if case["responses"] != [[None]]]
    assert len(kept) >= 5
    for case in kept:
        with pytest.raises(DocumentError, match="of pipeline 'x'"):
            built(case).apply(case["responses"], case["row"])


@pytest.mark.parametrize(
    ("steps", "responses", "row", "left"),
    [
        (
            [step("regex", regex_pattern=NUMBER, group_select=-1)],
            ["a 1,000 b 7", "none", "x 12. y"],
            {},
            ["7", "[invalid]", "12."],
        ),
        ([step("regex", regex_pattern=r"\d+")], ["a1 b22"], {}, ["1"]),
        ([step("regex", regex_pattern=r"ans (\d+)")], ["ans 1 ans 22"], {}, ["1"]),
        ([step("regex", regex_pattern="(x)?(y)?z")], ["z"], {}, ["[invalid]"]),
        ([step("regex", regex_pattern="(x)?z")], ["z"], {}, [""]),
        ([step("regex", regex_pattern=r"\d")], [None, 5], {}, ["[invalid]"] * 2),
        (
            [
                step(
                    "multi_choice_regex",
                    regex_pattern=r"\(([A-Z])\)",
                    ignore_case=True,
                    ignore_punctuation=True,
                )
            ],
            ["the answer is (B).", "I say maybe so", "answer: C", "zzz", "no (way)"],
            {"choices": ["Yes", "No", "Maybe so"]},
            ["B", "(C)", "(C)", "[invalid]", "(B)"],
        ),
        ([step("majority_vote")], ["a", "b", "b"], {}, ["b"]),
        ([step("majority_vote")], ["x", "y"], {}, ["x"]),
        (
            [step("regex_pos")],
            ["[('a', 'NOUN'), ('b', 'VERB')]", "foo"],
            {},
            [["NOUN", "VERB"], ["invalid"]],
        ),
        (
            [step("format_span")],
            ["Person: John, Mary $$ location: none\nDate: 5 May"],
            {},
            ["per: john $ per: mary $ date: 5 may"],
        ),
    ],
)
def test_golden_vectors_that_were_measured_on_lm_eval(steps, responses, row, left):
    """Measured by hand on 0.4.13; the responses belong to the same request."""
    assert pipeline("x", steps).apply([responses], row) == (left,)


def test_the_names_are_those_that_lm_eval_registers():
    """Its ``filter_registry``, 0.4.13."""
    assert list(FILTERS) == [
        *("custom", "format_span", "lowercase", "majority_vote", "map"),
        *("multi_choice_regex", "regex", "regex_pos", "remove_whitespace"),
        *("take_first", "take_first_k", "uppercase"),
    ]


@pytest.mark.parametrize(
    "given",
    [
        step("remove_whitespace", note=1),
        step("take_first_k", k=1, note=1),
        step("custom", filter_fn=lambda resps, docs: resps, note=1),
    ],
)
def test_filters_that_take_any_argument_in_lm_eval_take_it_here(given):
    pipeline("x", [given])
    assert ignored_arguments(given) == ("note",)
    assert ignored_arguments(step("take_first", note=1)) == ()
    assert ignored_arguments(step(Suffix, note=1)) == ()


def test_the_default_pipeline_takes_the_first_response():
    assert TAKE_FIRST.name == "none"
    assert TAKE_FIRST.apply([["a", "b"], ["c"]], {}) == ("a", "c")


def test_a_match_that_group_select_does_not_reach_is_reported_with_its_count():
    digits = pipeline("flex", [step("regex", regex_pattern=r"\d", group_select=2)])
    with pytest.raises(DocumentError) as caught:
        digits.apply([["1 2"]], {})
    assert str(caught.value) == (
        "filter 'regex' of pipeline 'flex': group_select 2 is out of range: "
        r"'\\d' matches 2 times"
    )


def test_an_unknown_filter_is_reported_with_a_near_one():
    with pytest.raises(UnknownNameError) as caught:
        pipeline("x", [step("take_frist")])
    expected = "unknown filter 'take_frist'; did you mean 'take_first'?"
    assert str(caught.value) == expected


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (
            step("regex", pattern="x"),
            "filter 'regex': got an unexpected keyword argument 'pattern'; it accepts "
            "regex_pattern, group_select, fallback",
        ),
        (
            step("regex", regex_pattern="(a"),
            "filter 'regex': '(a' is not a regular expression: missing ), unterminated "
            "subpattern at position 0",
        ),
        (
            step("regex", group_select="1"),
            "filter 'regex': group_select must be an integer, not '1'",
        ),
        (
            step("take_first_k"),
            "filter 'take_first_k': missing a required argument: 'k'; it accepts k",
        ),
        (
            step("lowercase", k=1),
            "filter 'lowercase': got an unexpected keyword argument 'k'; "
            "it accepts no arguments",
        ),
        (
            step("map", mapping_dict=[1]),
            "filter 'map': mapping_dict must be a mapping, not [1]",
        ),
        (
            step("custom", filter_fn="f"),
            "filter 'custom': filter_fn must be a function, not 'f'",
        ),
    ],
)
def test_bad_arguments_are_reported_when_the_pipeline_is_built(bad, message):
    with pytest.raises(EvalsError) as caught:
        pipeline("x", [bad])
    assert str(caught.value) == message


class Suffix:
    def __init__(self, suffix):
        self.suffix = suffix

    def apply(self, resps, docs):
        for group, doc in zip(resps, docs, strict=True):
            yield [text + doc["q"] + self.suffix for text in group]


def test_a_tasks_own_class_gets_all_responses_and_a_row_for_each():
    own = pipeline("x", [step(Suffix, suffix="!"), step("take_first")])
    assert own.apply([["a", "b"], ["c"]], {"q": "Q"}) == ("aQ!", "cQ!")


def test_a_tasks_own_function_gets_all_responses_and_a_row_for_each():
    def build(resps, docs):
        return [
            [doc["q"] + text for text in g] for g, doc in zip(resps, docs, strict=True)
        ]

    own = pipeline("x", [step("custom", filter_fn=build)])
    assert own.apply([["a", "b"]], {"q": "Q"}) == (["Qa", "Qb"],)


def test_a_factory_without_apply_is_refused():
    with pytest.raises(EvalsError, match=r"filter 'dict': returned \{\}, which has no"):
        pipeline("x", [step(dict)])


def test_a_fault_in_a_tasks_own_filter_names_exception_and_line():
    def broken(resps, docs):
        return [docs[0]["missing"]]

    own = pipeline("mine", [step("custom", filter_fn=broken)])
    line = broken.__code__.co_firstlineno + 1
    with pytest.raises(DocumentError) as caught:
        own.apply([["a"]], {})
    assert str(caught.value).startswith(
        "filter 'custom' of pipeline 'mine': KeyError: 'missing' ("
    )
    assert str(caught.value).endswith(f"test_filters.py:{line})")


def test_a_filter_that_loses_a_request_is_refused():
    own = pipeline("mine", [step("custom", filter_fn=lambda resps, docs: resps[:1])])
    with pytest.raises(DocumentError, match="it returned 1 entries for 2"):
        own.apply([["a"], ["b"]], {})


def test_a_text_filter_rejects_other_types():
    with pytest.raises(DocumentError, match=r"lower\(\) needs a string, got \(-1.0, T"):
        pipeline("x", [step("lowercase")]).apply([[(-1.0, True)]], {})


def test_an_empty_choice_matches_at_once_and_is_not_an_answer():
    """lm-eval 0.4.13's ``MultiChoiceRegexFilter`` returned these four values."""
    letters = pipeline("x", [step("multi_choice_regex"), step("take_first")])
    row = {"choices": ["bear", "", " blue"]}
    found = letters.apply([["zzz"], ["a bear"], ["x: C"], ["x: blue"]], row)
    assert found == ("[invalid]", "[invalid]", "(C)", "[invalid]")


def test_multi_choice_regex_has_a_letter_for_more_than_26_choices():
    row = {"choices": [f"c{i:02}" for i in range(28)]}
    letters = pipeline("x", [step("multi_choice_regex"), step("take_first")])
    assert letters.apply([["it is c27"], ["answer: ["]], row) == ("(\\)", "([)")
