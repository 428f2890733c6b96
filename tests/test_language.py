"""Docs, docstrings and messages use plain words and the terms of the field."""

from __future__ import annotations

from collections import defaultdict

import pytest

from tests.tools import language

CEILINGS: dict[str, int] = {
    "core docstrings": 91,
    "core messages": 3,
    "data docstrings": 24,
    "data messages": 1,
    "dialects docstrings": 574,
    "dialects messages": 88,
    "docs/options.md": 5,
    "docstrings": 1,
    "gates docstrings": 29,
    "gates messages": 8,
    "models docstrings": 27,
    "models messages": 7,
    "plugin docstrings": 158,
    "plugin messages": 16,
    "prompts docstrings": 24,
    "prompts messages": 4,
    "run docstrings": 48,
    "run messages": 5,
    "stats docstrings": 2,
    "store docstrings": 1,
}
"""Areas that are not rewritten yet, with the hits that they may have. Lower a number
after removing hits; remove its line at 0."""


def areas() -> dict[str, list[language.Text]]:
    """Prose by page, and by package and kind."""
    modules = sorted(language.PACKAGE.rglob("*.py"))
    prose: dict[str, list[language.Text]] = defaultdict(list)
    for text in language.texts([*language.pages(), *modules]):
        parts = text.path.relative_to(language.ROOT).parts
        package = parts[1] if len(parts) > 2 else ""
        page = text.kind == "docs"
        area = "/".join(parts) if page else f"{package} {text.kind}".strip()
        prose[area].append(text)
    return prose


AREAS = areas()


@pytest.mark.parametrize("area", AREAS)
def test_prose_has_no_pattern_with_a_plainer_wording(area):
    prose = AREAS[area]
    hits = language.hits(prose)
    if area in CEILINGS:
        hits += language.vague(prose)
    listing = "\n".join(map(str, hits))
    ceiling = CEILINGS.get(area, 0)
    assert len(hits) <= ceiling, f"{len(hits)} hits, at most {ceiling}:\n{listing}"


@pytest.mark.parametrize("area", AREAS)
def test_prose_has_less_than_one_vague_word_in_1000(area):
    if area in CEILINGS:
        pytest.skip("not rewritten yet")
    prose = AREAS[area]
    hits = language.vague(prose)
    listing = "\n".join(map(str, hits))
    # A short text may have one: rates are for those of thousands of words.
    assert len(hits) <= max(1, language.n_words(prose) / 1000), listing


@pytest.mark.parametrize(
    ("prose", "n"),
    [
        ("'metrc' is no key of a metric", 1),
        ("There are no documents; the key is no longer read", 0),
        ("A baseline that is not there is told of", 1),
        ("Checked as far as the server allows", 1),
        ("A gate by itself", 1),
        ("The gate fails below its threshold", 0),
    ],
)
def test_patterns_match_what_they_are_for(prose, n):
    text = language.Text(language.ROOT / "README.md", 1, "docs", prose)
    assert len(language.hits([text])) == n
