"""Names and ids from data as parts of node ids."""

from __future__ import annotations

import re
import unicodedata
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_evals.core.node_names import document_id, is_node_name, unfit_id

ANY = st.text(st.characters(exclude_categories=()))


@pytest.mark.parametrize(
    "text",
    [
        "Mercury_7175875",
        "a/b.c(d)-e+f=g%20#1",
        "a]b[c",
        "مرحبا",
        "می‌خواهم",
        "你好",
        "क्‍ष",
        "👩‍👩‍👧‍👦",
        "🏳️‍🌈",
        "e\u0301",
        "#hash",
        "##",
    ],
)
def test_ids_in_any_script_stay_as_they_are(text):
    assert document_id(text) == text
    assert unfit_id([text]) is None


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a b\tc\nd", "a_b_c_d"),
        ("  a  ", "a"),
        ("a::b:::c:d", "a.b.c:d"),
        ("\n::error::x", ".error.x"),
        ("##[error]x", "_#[error]x"),
        ("####[group]", "##_#[group]"),
        ("a\u202egnp.exe", "a_gnp.exe"),
        ("\u2066a\u2069", "_a_"),
        ("a\u200b\ufeff\u00adb", "a_b"),
        ("\x1b[31mred", "_[31mred"),
        ("\ud800", "_"),
        ("x" * 65, "x" * 64),
        (" ", ""),
    ],
)
def test_characters_that_are_invalid_in_a_node_id_are_replaced(text, shown):
    assert document_id(text) == shown
    assert (unfit_id([shown]) is None) == bool(shown)


@given(ANY)
def test_every_text_becomes_a_valid_id(text):
    made = document_id(text)
    assert document_id(made) == made
    assert (unfit_id([made]) is None) == bool(made)
    assert len(made) <= 64
    assert "##[" not in made
    assert "::" not in made
    # Bidi_Control, by Unicode's PropList
    assert not re.search("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]", made)
    assert not any(unicodedata.category(sign) in ("Cc", "Cs", "Zl") for sign in made)
    ElementTree.fromstring(f"<a>{made.translate({38: 43, 60: 43, 62: 43})}</a>")


@pytest.mark.parametrize("name", ["quiz", "c#", "mmlu (de)", "مرحبا", "你好", "a|5"])
def test_names_of_tasks(name):
    assert is_node_name(name)


@pytest.mark.parametrize(
    "name", ["", "a::b", "a[b", "a]", "a\nb", "a\u202eb", "a##", "\u200b", "a\x1b"]
)
def test_names_that_no_task_can_have(name):
    assert not is_node_name(name)
