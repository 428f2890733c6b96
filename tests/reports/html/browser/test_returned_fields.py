"""Transcripts, trees of calls, retrieved texts and JSON in the page."""

from __future__ import annotations

import pytest

from pytest_evals.reports.html.write import write_html

sync_api = pytest.importorskip("playwright.sync_api")
MARKUP = "<script>document.title = 'taken'</script><img src=x onerror=alert(1)>"


def call(name, **more):
    return {"name": name, "arguments": {"n": MARKUP, MARKUP: 2**70}, **more}


@pytest.fixture(scope="module")
def agent(write, tmp_path_factory):
    calls = [
        call(f"find{MARKUP}", id="1", result={MARKUP: [MARKUP]}),
        call("inner", id="2", parent="1", error=MARKUP),
        call("leaf", id="3", result=MARKUP),
    ]
    contexts = [{"id": MARKUP, "text": f"{MARKUP} one", "score": 0.5}, MARKUP]
    messages = [
        {"role": f"user{MARKUP}", "content": f"{MARKUP} hello", "images": [MARKUP]},
        {"role": "assistant", "content": MARKUP, "calls": calls, "contexts": contexts},
    ]
    returned = {
        "steps": [[{MARKUP: MARKUP}]],
        "data": [{"total": 2**70, MARKUP: MARKUP}],
        "calls": [calls],
        "contexts": [contexts],
        "messages": [messages],
        "usage": [{MARKUP: 1}],
        "metadata": [{MARKUP: MARKUP}],
    }
    folder = tmp_path_factory.mktemp("agent")
    row = write.generated(0, MARKUP, MARKUP, id="a", **returned)
    write_html(write.run(folder / "run", {"shop": [row]}), folder / "report.html")
    return folder / "report.html"


@pytest.fixture
def page(tab, agent):
    page = tab.open(agent, "#/documents?doc=shop/0")
    sync_api.expect(page.locator(".document h2")).to_have_text("a")
    yield page
    assert page.title() == "acme/llm-8b · evals"
    assert page.locator("#app script, #app img").count() == 0
    assert not tab.faults


def section(page, title):
    heading = page.get_by_role("heading", name=title, exact=True, level=3)
    return page.locator("section").filter(has=heading).first


def test_calls_are_a_tree_that_folds(page):
    calls = section(page, "Tool calls")
    lines = calls.locator("summary code")
    assert [one.partition("({")[0] for one in lines.all_inner_texts()] == [
        f"find{MARKUP}",
        "inner",
        "leaf",
    ]
    inner, leaf = lines.nth(1), calls.locator("details").nth(2)
    sync_api.expect(inner).to_be_visible()  # below the call that made it
    lines.first.click()
    sync_api.expect(inner).to_be_hidden()
    assert leaf.get_attribute("open") is None
    leaf.locator("summary").click()
    assert leaf.locator("pre").last.inner_text() == MARKUP
    assert str(2**70) in leaf.locator("pre").first.inner_text()
    assert calls.locator(".sign").all_text_contents() == ["✕"]  # that of the error


def test_messages_have_their_parts_below_them(page):
    transcript = section(page, "Transcript")
    heads = transcript.locator(".prompt > h4").all_inner_texts()
    assert heads == [f"user{MARKUP}", "assistant"]
    parts = transcript.locator(".returned h5").all_inner_texts()
    assert parts == ["Tool calls", "Retrieved texts"]
    assert transcript.locator("figcaption").all_inner_texts() == [MARKUP]


def test_contexts_are_a_list_and_json_is_indented(page):
    items = section(page, "Retrieved texts").locator("ol > li")
    assert [one.locator("pre").inner_text() for one in items.all()] == [
        f"{MARKUP} one",
        MARKUP,
    ]
    assert items.first.locator(".small").inner_text() == f"id {MARKUP}, score 0.5"
    data = section(page, "Data").locator("pre").inner_text()
    assert data.startswith(f'{{\n  "total": {2**70},\n  "<script>')


def test_they_are_searched(page):
    page.get_by_role("searchbox").fill("score 0.5")
    sync_api.expect(page.locator(".doc")).to_have_count(1)
    page.get_by_role("searchbox").fill("score 0.6")
    sync_api.expect(page.locator(".doc")).to_have_count(0)
