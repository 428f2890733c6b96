"""Documents with markup and scripts are shown as text."""

from __future__ import annotations

import re

import pytest

from pytest_evals.reports.html.write import write_html

sync_api = pytest.importorskip("playwright.sync_api")
HOSTILE = {
    "script": "</script><script>document.title = 'taken'</script>",
    "handler": "<img src=x onerror=\"document.title = 'taken'\">",
    "comment": "<!-- --!> ]]> <![CDATA[ &amp; &#x3C;",
    "lines": "one\u2028two\u2029three\r\nfour",
    "backwards": "\u202etxet sdrawkcab\u202c \u2066isolated",
    "nothing": "zero\x00 bell\x07 escape\x1b[31m",
    "surrogate": "lone \ud800 half",
    "quotes": "\"'`${1+1}` \\u003cb\\u003e",
    "emoji": "👩‍👩‍👧 مرحبا",
}


@pytest.fixture(scope="module")
def story(write, tmp_path_factory):
    """A run of such documents, and a very long one."""
    folder = tmp_path_factory.mktemp("hostile")
    rows = [
        write.generated(n, text, text, id=name, doc={"text": text}, error=text)
        for n, (name, text) in enumerate(HOSTILE.items())
    ]
    huge = "x" * 300_000
    rows.append(write.generated(len(rows), huge, huge, id="huge"))
    write_html(write.run(folder / "run", {"hostile": rows}), folder / "report.html")
    return folder / "report.html"


@pytest.mark.parametrize("name", HOSTILE)
def test_model_output_is_shown_as_text(tab, story, name):
    """Invisible characters are shown by their code points; all others are unchanged."""
    at = list(HOSTILE).index(name)
    page = tab.open(story, f"#/documents?doc=hostile/{at}")
    sync_api.expect(page.locator(".document h2")).to_have_text(name)
    shown = page.locator(".document pre.text").evaluate_all(
        "all => all.map(one => one.textContent)"
    )
    # UTF-8 cannot encode half a surrogate pair: the report contains its escape.
    expected = HOSTILE[name].encode("utf-8", "backslashreplace").decode()
    signs = r"[\x00-\x08\x0b\x0c\x0e-\x1f\u2028-\u202e\u2060-\u206f]"
    expected = re.sub(signs, lambda sign: f"U+{ord(sign[0]):04X}", expected)
    assert expected.replace("\r\n", "\n") in [
        text.replace("\r\n", "\n") for text in shown
    ]
    assert page.title() == "acme/llm-8b · evals"
    assert page.locator("#app script, #app img").count() == 0


def test_a_huge_line_is_truncated_until_expanded(tab, story):
    page = tab.open(story, f"#/documents?doc=hostile/{len(HOSTILE)}")
    first = page.locator(".document pre.text").first
    sync_api.expect(first).to_be_visible()
    assert len(first.text_content()) < 30_000
    assert page.get_by_text("show all 300,000 characters").first.is_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 1280
