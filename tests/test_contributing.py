"""Names in the pages for contributors and on installation exist."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

import pytest_evals

ROOT = Path(__file__).parent.parent
PACKAGE = Path(pytest_evals.__file__).parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
INDEX = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/*.md")]


def rows(text: str) -> list[list[str]]:
    """Cells of the tables of a text."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def code(text: str) -> list[str]:
    return re.findall(r"`([^`\n]+)`", text)


@pytest.mark.guests
def test_every_file_that_contributing_names_exists():
    named = [
        word for word in code(CONTRIBUTING) if re.fullmatch(r"[\w/.]+/[\w.]+", word)
    ]
    assert len(named) > 20
    for name in named:
        assert (ROOT / name).exists() or (PACKAGE / name).exists(), name


def test_something_new_touches_at_most_four_files_of_the_package():
    _, table = CONTRIBUTING.split("## Where to add something")
    tasks = [
        row for row in rows(table) if len(row) == 3 and row[2].startswith("`tests")
    ]
    assert len({" ".join(row[0].split(":")[0].split()[:3]) for row in tasks}) >= 6
    for what, files, _ in tasks:
        places = [
            word for word in code(files) if re.fullmatch(r"[\w/]+(?:\.\w+)+", word)
        ]
        new = files.count("a module")
        assert len(places) + new <= 4, what


def test_tables_of_names_in_contributing_have_correct_places():
    for path, name in re.findall(r"`([\w/]+\.py)`: [^`;|]*`([A-Z_]+)`", CONTRIBUTING):
        text = (PACKAGE / path).read_text(encoding="utf-8")
        assert re.search(rf"^{name}\b", text, re.MULTILINE), (path, name)


def test_every_module_that_the_architecture_walks_through_exists():
    walk = ARCHITECTURE[ARCHITECTURE.index("## One document") :]
    named = [word for word in code(walk) if re.fullmatch(r"[a-z_]+(\.[a-z_]+)+", word)]
    assert len(named) > 20
    for name in named:
        path = PACKAGE.joinpath(*name.split("."))
        assert path.is_dir() or path.with_suffix(".py").is_file(), name


def test_every_extra_is_in_the_table_of_the_installation():
    section = INDEX[INDEX.index("## Install") : INDEX.index("### Platforms")]
    found = [code(row[0])[0] for row in rows(section) if row[0].startswith("`")]
    assert sorted(found) == sorted(PROJECT["project"]["optional-dependencies"])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_nothing_is_installed_from_the_index_before_there_is_a_release(page):
    name = PROJECT["project"]["name"]
    commands = re.findall(r"pip install[^`\n]*", page.read_text(encoding="utf-8"))
    assert not [one for one in commands if name in one]


def test_the_wheel_of_the_docs_has_the_name_and_version_of_the_project():
    project = PROJECT["project"]
    wheel = f"{project['name'].replace('-', '_')}-{project['version']}-py3-none-any.whl"
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        assert set(re.findall(r"[\w.-]+\.whl", text)) <= {wheel}, page.name


def test_the_pages_show_the_version():
    site = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))
    assert site["project"]["copyright"].endswith(PROJECT["project"]["version"])
