"""Nulls in template values that become text, in both kinds of templates."""

from pathlib import Path

import pytest

from pytest_evals.errors import Place
from pytest_evals.guests.latticeflow.prompts import templates as latticeflow
from pytest_evals.prompts.fields import compile_template

PLACE = Place(Path("t.yaml"), 3)
ROW = {"a": None, "b": "B", "n": {"x": None}, "l": ["x", None], "none": "None"}

NULLS = {
    "{{ a }}": "a",
    "Q: {{ b }}\n{{ a }}": "a",
    "{{ n.x }}": "n.x",
    "{{ n['x'] }}": "n['x']",
    "{{ l[1] }}": "l[1]",
    "{{ l | last }}": "l",
    "{{ b ~ ' ' ~ a }}": "a",
    "{{ a | upper }}": "a",
    "{{ a | lower }}": "a",
    "{{ a | trim }}": "a",
    "{{ (a | string)[:3] }}": "a",
    "{{ l | join(', ') }}": "l[1]",
    "{{ '%s' % a }}": "a",
    "{{ '%s %s' | format(b, a) }}": "a",
    "{{ '{}'.format(a) }}": "a",
    "{% for x in l %}{{ x }}{% endfor %}": "x",
    "{% set t %}{{ a }}{% endset %}{{ t }}": "a",
    "{% macro m(x) %}{{ x }}{% endmacro %}{{ m(a) }}": "x",
    "{% if b %}{{ a }}{% endif %}": "a",
    "{{ a if b else b }}": "an expression",
    "{{ a | default('-') }}": "a",
    "{{ n.get('x') }}": "n.get(…)",
}
SOUND = [
    "{{ b }} {{ none }} None",
    "{{ none | lower }}",
    "{{ a or '' }}",
    "{{ a | default('-', true) }}",
    "{{ b if a is none else a }}",
    "{% if a %}{{ a }}{% endif %}",
    "{% if a is none %}None{% endif %}",
    "{{ a | tojson }}",
    "{{ l }} {{ n }}",
    "{{ a == None }}",
    "{{ [a, b] | select | join }}",
]


@pytest.mark.parametrize(("text", "name"), NULLS.items())
def test_a_null_that_becomes_text_is_named_and_the_text_of_lm_eval_stays(text, name):
    template = compile_template(text)
    rendered = template.render(ROW)
    assert "non" in rendered.casefold()
    assert list(template.nulls(ROW, rendered)) == [name]


@pytest.mark.parametrize(("text", "name"), NULLS.items())
def test_a_null_that_becomes_text_is_an_error_in_latticeflows_templates(text, name):
    template = latticeflow.compile_template(text, PLACE, "content")
    shown = "…" if name == "an expression" else name
    with pytest.raises(latticeflow.NullFieldError) as error:
        template.render(ROW)
    assert str(error.value) == (
        f"t.yaml:3: content: {name} is null and would be rendered as 'None'"
        f"{' (line 2 of the template)' * (chr(10) in text)}\n"
        f"  fix: add a value, or write {{{{ {shown} or '' }}}}"
    )


@pytest.mark.parametrize("text", SOUND)
def test_a_null_that_a_template_handles_is_not_reported(text):
    template = compile_template(text)
    assert template.nulls(ROW, template.render(ROW)) == ()
    latticeflow.compile_template(text, PLACE, "content").render(ROW)


def test_checking_for_nulls_does_not_change_rows():
    text = "{% set _ = l.append('None') %}{{ l[2] }}"
    row = {"l": ["x", None]}
    template = compile_template(text)
    assert template.nulls(row, template.render(row)) == ()
    assert row == {"l": ["x", None]}
