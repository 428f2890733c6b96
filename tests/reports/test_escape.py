"""Untrusted text, escaped for display."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_evals.reports.escape import cells, cut, near, one_line, tail, wrapped


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain [red]text[/red]", "plain [red]text[/red]"),
        ("a\nb\tc\rd", "a⏎b\\tc\\rd"),
        ("\x1b[2J\x07", "\\x1b[2J\\x07"),
        ("\x9b31m", "\\x9b31m"),
        ("abc\u202egpj", "abc\\u202egpj"),
        ("a\u2028b", "a\\u2028b"),
        ("\ud800", "\\ud800"),
        ("Zürich 東京", "Zürich 東京"),
        ("👩‍👩‍👧 می‌خواهم क्‍ष", "👩‍👩‍👧 می‌خواهم क्‍ष"),
        ("::error::owned", "\\x3a:error::owned"),
        (" \t::stop-commands::x", " \\t::stop-commands::x"),
        ("  ::add-mask::a", "  \\x3a:add-mask::a"),
        ("evals/arc.yaml::arc[1]", "evals/arc.yaml::arc[1]"),
        ("done ##[set-output name=x]1", "done \\x23#[set-output name=x]1"),
        ("####[error]x", "##\\x23#[error]x"),
    ],
)
def test_control_characters_are_escaped(text, shown):
    assert one_line(text) == shown


@given(st.text(st.characters(exclude_categories=[])))
def test_any_text_becomes_one_printable_line(text):
    for shown in (one_line(text), tail(text, 5)):
        assert re.sub("[\u200c\u200d]", "", shown).isprintable()


SIGNS = st.text("a:#[ \n\u3000", max_size=12)


@given(SIGNS)
def test_no_line_is_a_command_of_githubs_runner(text):
    """Both forms, as in its source: ``::`` after white space, and ``##[`` anywhere
    (actions/runner, src/Runner.Common/ActionCommand.cs)."""
    shown = one_line(text)
    assert not shown.lstrip().startswith("::")
    assert "##[" not in shown
    assert one_line(shown) == shown


@given(st.text(max_size=30), st.integers(1, 20))
def test_a_truncated_text_fits_and_is_marked(text, most):
    shown = cut(text, most)
    assert cells(shown) <= most
    assert shown == one_line(text) or shown.endswith("…")


def test_wide_characters_take_two_columns_and_marks_none():
    assert (cells("東京"), cells("e\u0301"), cells("ab")) == (4, 1, 2)
    assert cut("東京都", 5) == "東京…"


def test_the_tail_is_the_end_of_the_text():
    assert tail("Question: 1+1?\nAnswer:", 10) == "…?⏎Answer:"[:1] + "1?⏎Answer:"
    assert tail("short", 10) == "short"


def test_a_path_is_shown_as_one_would_type_it():
    here = Path("/home/me/suite")
    assert near(here / ".evals" / "runs", here) == ".evals/runs"
    assert near(Path("/tmp/x"), here) == "/tmp/x"


def test_lines_of_messages_wrap_below_their_text_and_commands_do_not():
    reason = "      reason  " + "word " * 20
    assert wrapped(reason.rstrip(), 50) == [
        "      reason  word word word word word word word",
        "              word word word word word word word",
        "              word word word word word word",
    ]
    mark = "E   " + "word " * 12
    assert wrapped(mark.rstrip(), 50)[1].startswith("    word")
    command = "    pytest " + "'a long path/to a suite.yaml::quiz[q1]' " * 3
    assert wrapped(command, 50) == [command]
    assert wrapped("short", 80) == ["short"]
