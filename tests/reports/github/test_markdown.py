"""Any text in Markdown is rendered unchanged by an independent renderer."""

from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from pytest_evals.reports.escape import one_line
from pytest_evals.reports.github.markdown import code, details, fenced, plain, table

APART = "\u200b"
HOSTILE = [
    "</details></td><script>alert(1)</script>",
    "a | b \\| c",
    "```\n# heading\n```",
    "`` ` ``",
    "![x](https://evil.example/?q=1) [y](javascript:alert(1)) <https://a.example>",
    "**bold** _em_ ~~gone~~ $x^2$ @user #12 www.evil.example &lt;b&gt;",
    "<!-- -->\n\n- list\n1. one",
    "::error::x",
    "",
    "  ",
]
MARKUP = st.text("ab |`\\*_<>&;#[]()!~@$\n1.:-", max_size=20)


class Page(HTMLParser):
    """The tags and the text of HTML."""

    def __init__(self, markdown):
        super().__init__()
        self.tags, self.cells, self.text = [], [], ""
        self.feed(MarkdownIt("commonmark").enable(["table"]).render(markdown))

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        assert {name for name, _ in attrs} <= {"style", "class", "open"}
        if tag in ("td", "th"):
            self.cells.append("")

    def handle_data(self, data):
        self.text += data
        if self.cells:
            self.cells[-1] += data


def in_a_table(cell):
    page = Page(table(("one", "two:"), [(cell, "end")]))
    assert len(page.cells) == 4
    return page, page.cells[2].rstrip("\n").replace(APART, "")


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("form", [plain, code])
def test_hostile_text_in_a_table_is_text(text, form):
    page, shown = in_a_table(form(text))
    assert shown.strip() == one_line(text).strip()
    assert set(page.tags) <= {"table", "thead", "tbody", "tr", "th", "td", "code"}


@given(MARKUP, st.sampled_from([plain, code]))
def test_any_text_in_a_table_is_one_cell_with_that_text(text, form):
    _, shown = in_a_table(form(text))
    assert shown.strip() == one_line(text).strip()


@given(st.lists(MARKUP, min_size=1, max_size=4))
def test_a_block_shows_its_lines_as_they_are(lines):
    page = Page(details("summary", fenced(lines)))
    assert page.tags == ["details", "summary", "pre", "code"]
    shown = page.text.partition("summary")[2].strip("\n").split("\n")
    assert shown == "\n".join(map(one_line, lines)).strip("\n").split("\n")


def test_mentions_and_links_have_no_effect():
    """GitHub processes the text further after Markdown."""
    shown = Page(plain("@user fixes #12 at www.a.example, https://b.example")).text
    assert "@user" not in shown
    assert "#12" not in shown
    assert "www." not in shown
    assert "://" not in plain("https://b.example")


def test_names_stay_readable_in_the_source():
    assert code("quiz[q1]") == "`quiz[q1]`"
    assert plain("0.625, 5 of 8 (1/2) = 50%") == "0.625, 5 of 8 (1/2) = 50%"
    assert plain("fix: set max_drop: 0.2") == "fix: set max_drop: 0.2"
    assert plain(":tada: _a_ b:c") == "&#58;tada: &#95;a&#95; b&#58;c"
