"""Templates and expressions. OBS: measured on ``latticeflow-core`` 3.17.0. DOC: from
LatticeFlow's documentation. The rest is our own decision."""

from pathlib import Path

import pytest

from pytest_evals.data.calls import FieldError
from pytest_evals.errors import Place, TaskFileError
from pytest_evals.guests.latticeflow.prompts.templates import (
    compile_expression,
    compile_template,
)

PLACE = Place(Path("t.yaml"), 3)


def text(source, **variables):
    return compile_template(source, PLACE, "ground_truth").render(variables)


def fault(source, **variables):
    with pytest.raises(FieldError) as caught:
        text(source, **variables)
    return str(caught.value)


def value(source, **variables):
    return compile_expression(source, PLACE).value(variables)


def exists(source, **variables):
    return compile_expression(source, PLACE).exists(variables)


def test_exactly_one_newline_at_the_end_is_dropped():
    """OBS: ``ground_truth: >`` ends in a newline and compares equal to ``Paris``."""
    assert text("Paris\n") == "Paris"
    assert text("Paris\n\n") == "Paris\n"


def test_values_become_text_as_jinja_has_it():
    assert text("{{ sample.n }}", sample={"n": 3}) == "3"
    assert text("{{ sample.l }}", sample={"l": ["a"]}) == "['a']"
    assert text("{{ a }}", a="<&>") == "<&>"


def test_a_column_beats_the_method_of_the_same_name():
    row = {"items": "socks", "values": 2}
    assert text("{{ sample.items }} {{ sample.values }}", sample=row) == "socks 2"
    assert text("{% for k, v in s.items() %}{{ k }}{% endfor %}", s={"a": 1}) == "a"


def test_do_and_loop_controls_work():
    source = (
        "{% set l = [] %}{% for i in range(9) %}{% if i == 3 %}{% break %}{% endif %}"
        "{% do l.append(i) %}{% endfor %}{{ l }}"
    )
    assert text(source) == "[0, 1, 2]"


@pytest.mark.parametrize(
    "change", ["{% do sample.l.append(1) %}", "{{ sample.l.append(1) or '' }}"]
)
def test_a_template_cannot_change_a_row(change):
    row = {"l": []}
    text(change, sample=row)
    assert row == {"l": []}


def test_filters_beyond_jinjas_own():
    assert text("{{ ('{\"a\": [1]}' | fromjson).a[0] }}") == "1"
    assert text("{{ x | json_escape }}", x='say "hi"\n') == r"say \"hi\"\n"
    assert text("{{ [1, 2] | zip('ab') | list }}") == "[(1, 'a'), (2, 'b')]"
    left = {"a": {"b": 1, "c": 2}, "d": 3}
    assert text("{{ x | merge({'a': {'b': 9}, 'd': {}}) }}", x=left) == (
        "{'a': {'b': 9, 'c': 2}, 'd': {}}"
    )
    assert left == {"a": {"b": 1, "c": 2}, "d": 3}
    assert text("{{ 'aXbx' | regex_replace('x', '-', ignorecase=True) }}") == "a-b-"
    assert text("{{ 'aaa' | regex_replace('a', 'b', count=2) }}") == "bba"
    source = r"{{ 'a\na' | regex_replace('^a', 'b', multiline=True) }}"
    assert text(source) == "b\nb"


def test_tojson_is_jinjas_own_with_sorted_keys():
    """OBS: HTML characters are escaped, even where nothing else is."""
    assert text("{{ x | tojson }}", x={"b": "<a>", "a": 1}) == (
        r'{"a": 1, "b": "\u003ca\u003e"}'
    )


def test_an_unknown_name_is_reported_with_a_similar_one():
    row = {"question": "Q?", "target": "T"}
    assert fault("{{ sample.qestion }}", sample=row) == (
        "t.yaml:3: ground_truth: unknown field 'qestion'; did you mean 'question'?"
    )
    assert fault("\n{{ sample['x'] }}", sample=row) == (
        "t.yaml:3: ground_truth: unknown field 'x'; known: question, target "
        "(line 2 of the template)"
    )
    assert fault("{{ question }}", sample=row) == (
        "t.yaml:3: ground_truth: 'question' is undefined; known: sample"
    )


def test_a_fault_in_an_expression_names_the_line_of_the_template():
    assert fault("a\nb {{ 1 / n }}", n=0) == (
        "t.yaml:3: ground_truth: ZeroDivisionError: division by zero "
        "(line 2 of the template)"
    )
    assert "TypeError: merge takes two mappings, not [1]" in fault(
        "{{ [1]|merge({}) }}"
    )


@pytest.mark.parametrize("way", ["''.__class__", "f.__globals__", "''|attr('__doc__')"])
def test_python_is_out_of_reach(way):
    assert "unsafe" in fault("{{ (" + way + ").x }}", f=test_python_is_out_of_reach)


def test_an_invalid_template_is_an_error_of_the_file():
    with pytest.raises(TaskFileError) as caught:
        compile_template("a\n{{ sample.q }", PLACE, "ground_truth")
    assert str(caught.value) == (
        "t.yaml:3: ground_truth is not a valid template: unexpected "
        "'}'; write values as {{ name }}, statements as {% … %} "
        "(line 2 of the template)"
    )
    with pytest.raises(
        TaskFileError, match="unknown filter 'upperr'; did you mean 'upper'"
    ):
        compile_template("{{ a | upperr }}", PLACE, "ground_truth")


def test_a_lone_expression_gives_the_value_itself():
    row = {"n": "3", "l": ["x"], "d": "2025-07-04", "b": False}
    assert value("{{ sample.n }}", sample=row) == "3"
    assert value(" {{ sample.l }}\n", sample=row) is row["l"]
    assert value("{{ sample.d }}", sample=row) == "2025-07-04"
    assert value("{{ sample.b and 1 }}", sample=row) is False
    assert value("{{ sample.l | length > 0 }}", sample=row) is True


def test_text_around_an_expression_makes_it_a_text():
    assert value("a {{ n }}", n=3) == "a 3"
    assert value("{{ n }}{{ n }}", n=3) == "33"
    assert value("{% if n %}yes{% endif %}", n=3) == "yes"


def test_an_expression_without_braces_is_an_expression():
    """DOC: a published example has ``scores.judge.label``."""
    assert value("scores.judge.label", scores={"judge": {"label": "A"}}) == "A"


def test_null_exists_and_a_missing_value_does_not():
    sample = {"a": None}
    assert exists("{{ sample.a }}", sample=sample)
    assert not exists("{{ sample.b }}", sample=sample)
    assert not exists("{{ sample.b.c }}", sample=sample)
    assert not exists("{{ other }}", sample=sample)
    with pytest.raises(FieldError, match="unknown field 'b'; known: a"):
        value("{{ sample.b }}", sample=sample)
    with pytest.raises(FieldError, match="ZeroDivisionError"):
        exists("{{ 1 / n }}", n=0)
