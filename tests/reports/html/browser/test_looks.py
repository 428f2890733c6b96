"""The layout of the page: on a phone, in print, in both themes."""

from __future__ import annotations

import json

import pytest

sync_api = pytest.importorskip("playwright.sync_api")


BEYOND = """() => [...document.querySelectorAll("body *")]
    .filter(one => one.getBoundingClientRect().right > innerWidth + 1)
    .filter(one => !one.closest(".shows, .question, bdi"))
    .map(one => `${one.tagName}.${one.className}`)"""
"""Elements that may overflow invisibly; a line that ends in … is truncated by
design."""


def test_all_views_fit_a_phone(tab, story):
    views = ["summary", "gates", "task?name=quiz", "changes", "run"]
    views += ["documents", "documents?doc=quiz/0", "documents?doc=quiz/1"]
    page = tab.page
    page.set_viewport_size({"width": 360, "height": 740})
    try:
        for view in views:
            tab.open(story, f"#/{view}")
            wide = page.evaluate("document.documentElement.scrollWidth")
            assert wide <= 360, view
            assert page.evaluate(BEYOND) == [], view
    finally:
        page.set_viewport_size({"width": 1280, "height": 800})


def test_print_is_white_in_both_themes(tab, story):
    page = tab.open(story, "#/summary")
    page.evaluate("document.documentElement.dataset.theme = 'dark'")
    page.emulate_media(media="print", color_scheme="dark")
    page.set_viewport_size({"width": 700, "height": 800})
    try:
        assert page.evaluate("getComputedStyle(document.documentElement).color") == (
            "rgb(0, 0, 0)"
        )
        assert page.evaluate(BEYOND) == []
    finally:
        page.emulate_media(media="screen", color_scheme="light")
        page.set_viewport_size({"width": 1280, "height": 800})


def test_paper_gets_the_document_and_nothing_to_press(tab, story):
    page = tab.open(story, "#/documents?doc=quiz/1")
    sync_api.expect(page.locator(".document")).to_be_visible()
    page.emulate_media(media="print")
    try:
        assert page.locator(".document").is_visible()
        for part in (".top", ".finder", ".document button"):
            assert not page.locator(part).first.is_visible(), part
    finally:
        page.emulate_media(media="screen")


def test_charts_on_paper_are_as_wide_as_paper(tab, story):
    """Wider ones would be scaled down, with text too small to read."""
    page = tab.page
    page.set_viewport_size({"width": 1440, "height": 900})
    try:
        tab.open(story, "#/task?name=quiz")
        chart = page.locator(
            "figure .chart svg, .verdict .chart svg, .page > .chart svg"
        )
        sync_api.expect(chart.first).to_be_visible()
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        assert 600 <= float(chart.first.get_attribute("width")) <= 700
        page.evaluate("dispatchEvent(new Event('afterprint'))")
        assert float(chart.first.get_attribute("width")) > 900
    finally:
        page.set_viewport_size({"width": 1280, "height": 800})


def test_graphics_can_be_seen_on_every_ground_in_both_themes(tab, story):
    """Contrast as in WCAG 2.2, success criterion 1.4.11: at least 3."""
    page = tab.open(story)
    names = ["paper", "panel", "wash", "rest"]
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme)
        paper, panel, wash, rest = page.evaluate(
            """names => names.map(name => getComputedStyle(document.documentElement)
                .getPropertyValue(`--${name}`).trim())""",
            names,
        )
        assert min(contrast(ground, rest) for ground in (paper, panel, wash)) >= 3
    page.emulate_media(color_scheme="light")


def test_text_can_be_read_on_every_ground_in_both_themes(tab, story):
    """Contrast as WCAG 2.2 computes it, success criterion 1.4.3: at least 4.5."""
    page = tab.open(story)
    names = (
        ["paper", "panel", "wash"],
        ["ink", "soft", "accent", "good", "bad", "warn", "odd"],
    )
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme)
        colours = page.evaluate(
            """names => Object.fromEntries(names.map(name => {
                const style = getComputedStyle(document.documentElement);
                return [name, style.getPropertyValue(`--${name}`).trim()];
            }))""",
            [*names[0], *names[1]],
        )
        low = {
            (theme, ground, text): ratio
            for ground in names[0]
            for text in names[1]
            if (ratio := contrast(colours[ground], colours[text])) < 4.5
        }
        assert low == {}, json.dumps(colours)
    page.emulate_media(color_scheme="light")


def contrast(one, other):
    bright, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (bright + 0.05) / (dark + 0.05)


def luminance(colour):
    shares = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [
        s / 12.92 if s <= 0.04045 else ((s + 0.055) / 1.055) ** 2.4 for s in shares
    ]
    return sum(w * s for w, s in zip((0.2126, 0.7152, 0.0722), linear, strict=True))
