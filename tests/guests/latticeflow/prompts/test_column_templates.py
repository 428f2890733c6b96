"""The fast path of templates renders what Jinja renders, or falls back to Jinja."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_evals.errors import DocumentError, Place
from pytest_evals.guests.latticeflow.prompts.templates import (
    compile_template,
    render_pieces,
)

PLACE = Place(Path("task.yaml"), 3)
VALUES = st.one_of(st.text(max_size=5), st.integers(), st.floats(), st.booleans())
ROWS = st.fixed_dictionaries({"a": VALUES, "items": VALUES, "b c": VALUES})
PIECES = st.sampled_from(
    [
        "{{ sample.a }}",
        "{{ sample['b c'] }}",
        "{{- sample.items -}}",
        "{# aside #}",
        " Say: ",
        "\n",
        "{{ '{{' }}",
        "{{ sample.a | upper }}",
    ]
)


@pytest.mark.slow
@given(st.lists(PIECES, max_size=6), ROWS)
def test_it_reads_as_with_jinja(pieces, row):
    template = compile_template("".join(pieces), PLACE, "content")
    variables = {"sample": row}
    assert template.render(variables) == template._parsed.compiled.render(variables)


@pytest.mark.parametrize("text", ["{{ sample.a }}", "Q: {{ sample['a'] }}\nA:", "x"])
def test_most_prompts_need_no_jinja(text):
    template = compile_template(text, PLACE, "content")
    assert render_pieces(
        template._parsed.pieces, {"sample": {"a": 1.5}}
    ) == text.replace("{{ sample.a }}", "1.5").replace("{{ sample['a'] }}", "1.5")


@pytest.mark.parametrize("row", [{}, {"a": None}, {"a": [1]}, {"a": {"b": 1}}])
def test_values_that_are_not_plain_are_left_to_jinja(row):
    template = compile_template("{{ sample.a }}", PLACE, "content")
    assert render_pieces(template._parsed.pieces, {"sample": row}) is None
    assert render_pieces(template._parsed.pieces, {}) is None


def test_a_column_that_is_not_there_is_a_fault_with_its_place():
    template = compile_template("{{ sample.b }}", PLACE, "content")
    with pytest.raises(
        DocumentError, match=r"task\.yaml:3: content: unknown field 'b'"
    ):
        template.render({"sample": {"a": 1}})
