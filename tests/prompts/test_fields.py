"""Columns, templates and functions. The edge cases of digits and lists were measured on
lm-eval 0.4.13, except where it fails, as the test names state."""

from pathlib import Path

import pytest

from pytest_evals.data.calls import FieldError
from pytest_evals.errors import EvalsError, Place
from pytest_evals.prompts.fields import (
    Field,
    bind,
    compile_template,
    list_of_text,
    number_or_text,
    target_of_text,
    text_itself,
)


def field(spec, key="doc_to_text"):
    return Field(key=key, spec=spec, place=Place(Path("t.yaml"), 3))


def read(spec, row, columns=("q", "n"), after=text_itself):
    return bind(field(spec), columns, after)(row)


def test_a_column_gives_its_raw_value_and_any_other_text_is_a_template():
    row = {"q": "Q?", "n": 7, "Answer Key": "B"}

    assert read("n", row) == 7
    assert read("{{n}}", row) == "7"
    assert read("other", row) == "other"
    assert read("Answer Key", row, ["Answer Key"]) == "B"
    assert read("n", row, columns=["q"]) == "n"
    assert read("n", row, columns=None) == 7
    assert read(3, row) == 3
    assert read({"x": "a", "y": "b"}, row) == ["a", "b"]
    assert read(lambda doc: doc["n"] + 1, row) == 8


@pytest.mark.parametrize(
    ("text", "value"),
    [("12", 12), ("0", 0), ("-1", "-1"), ("3.0", "3.0"), ("True", "True"), ("", "")],
)
def test_digits_are_a_number(text, value):
    assert number_or_text(text) == value


@pytest.mark.parametrize("text", ["007", "²", "٣"])
def test_digits_that_lm_eval_fails_on_stay_text(text):
    assert number_or_text(text) == text


def test_a_list_literal_is_a_list_and_other_brackets_are_text():
    assert target_of_text("[1,2]") == [1, 2]
    assert target_of_text("[a]") == "[a]"
    assert target_of_text("[") == "["


def test_choices_have_to_be_the_literal_of_a_list_or_of_a_text():
    assert list_of_text("['a', 'b']") == ["a", "b"]
    assert list_of_text("'ab'") == "ab"
    with pytest.raises(ValueError, match="not a list literal"):
        list_of_text("{'a': 1, 'b': 2}")  # lm-eval fails on the first document
    with pytest.raises(
        ValueError, match="the template rendered 'a, b', which is not a list"
    ):
        list_of_text("a, b")


def test_templates_are_those_of_lm_eval():
    row = {"q": " a b ", "choices": {"text": ["x", "y"]}, "n": None}

    def render(text):
        return compile_template(text).render(row)

    assert render("{{q.strip()}}\n") == "a b\n"
    assert render("{{q|regex_replace('[ab]', 'c', 1)}}") == " c b "
    assert render("{% for c in choices.text %}{{loop.index}}{{c}} {% endfor %}") == (
        "1x 2y "
    )
    assert render("{{n}} {{choices.text}} {{true}}") == "None ['x', 'y'] True"
    assert render("<b>{{'<'}}</b>\r\n") == "<b><</b>\n"


def test_a_template_cannot_reach_python():
    with pytest.raises(FieldError):
        read("{{''.__class__.__mro__}}", {"q": "a"})


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{% set l = [] %}{{ l.append(q[0]) or '' }}{{ l }}", "['a']"),
        ("{{ q.pop() }} {{ q }}", "b ['a']"),
    ],
)
def test_a_template_may_change_lists_without_changing_its_row(text, value):
    """Texts measured on lm-eval 0.4.13, where the row would stay changed."""
    row = {"q": ["a", "b"]}

    assert read(text, row) == value
    assert read(text, row) == value
    assert row == {"q": ["a", "b"]}


def test_a_template_that_does_not_compile_is_reported_with_the_reason():
    with pytest.raises(EvalsError) as error:
        compile_template("a\n{{ b")

    assert str(error.value) == (
        "unexpected end of template, expected 'end of print statement'; write values "
        "as {{ name }}, statements as {% … %} "
        "(line 2 of the template)"
    )


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            "{{qq}}",
            "t.yaml:3: doc_to_text uses 'qq', which is not a column; did "
            "you mean 'q'?\n"
            "  fix: the columns are q, n",
        ),
        (
            "{{n.text}}",
            "t.yaml:3: doc_to_text: 'int object' has no attribute 'text'",
        ),
        ("{{q + n}}", "t.yaml:3: doc_to_text: TypeError: "),
        ("{{1 // 0}}", "t.yaml:3: doc_to_text: ZeroDivisionError: "),
    ],
)
def test_a_template_that_fails_on_a_row_is_reported_with_the_row(spec, message):
    with pytest.raises(FieldError) as error:
        read(spec, {"q": "x", "n": 1})

    assert str(error.value).startswith(message)


def test_a_row_without_the_column_is_reported():
    with pytest.raises(FieldError) as error:
        read("n", {"q": "x"})

    assert str(error.value) == "t.yaml:3: doc_to_text: this row has no column 'n'"


def test_a_failing_function_is_reported_with_its_place():
    def text(doc):
        return doc["nothing"]

    with pytest.raises(FieldError) as error:
        read(text, {"q": "x"})

    line = text.__code__.co_firstlineno + 1
    assert str(error.value).startswith(
        "t.yaml:3: doc_to_text: KeyError: 'nothing' (tests"
    )
    assert str(error.value).endswith(f"test_fields.py:{line})")
