"""Screens of the docs come from real runs, and tables of options and keys from the
code: the scripts that generate them, and their pages."""

import importlib.util
import re
from pathlib import Path

import pytest

from pytest_evals.plugin.settings.option_table import TABLE

ROOT = Path(__file__).parent.parent
PAGES = ("README.md", *sorted(f"docs/{path.name}" for path in ROOT.glob("docs/*.md")))


def script(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "tests" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


screens, suites = script("screens"), script("screen_suites")
tables = script("reference_tables")

PAGE = """\
<!-- a.txt -->
```text
one
two
```

<!-- + a.txt -->
```text
three
four
```

<!-- run: echo five >> a.txt -->

Prose <!-- a remark --> stays.

<!-- screen: cat a.txt | two .. three | five ..  -->
```text
old
```
"""


def test_a_page_is_followed_and_its_screens_are_new(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    assert screens.follow(page) == PAGE.replace("old", "two\nthree\n…\nfive")


def test_a_screen_that_differs_in_times_only_is_kept(tmp_path):
    page = tmp_path / "page.md"
    line = "time: {} s in the model ({} tokens/s)"
    page.write_text(
        f"<!-- screen: echo '{line.format('4.25', '1,200')}' -->\n"
        f"```text\n{line.format('1.5', '80')}\n```\n"
    )
    assert screens.follow(page) == page.read_text()


def test_a_screen_that_lacks_its_lines_is_reported(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(PAGE.replace("five .. ", "six .. "))
    with pytest.raises(SystemExit, match="no line with 'six'"):
        screens.follow(page)


@pytest.mark.parametrize("name", PAGES)
def test_every_screen_is_made_by_the_script(name):
    text = (ROOT / name).read_text("utf-8")
    made = [step for step in screens.steps(text) if step.what.startswith("screen")]
    assert len(made) == text.count("```text\n")
    assert all(step.body for step in made)


@pytest.mark.parametrize("name", PAGES)
def test_suites_of_screens_exist(name):
    used = re.findall(r"screen_suites ([\w ]+)", (ROOT / name).read_text("utf-8"))
    assert {one for names in used for one in names.split()} <= {*suites.SUITES}


@pytest.mark.parametrize("name", PAGES)
def test_commands_of_screens_have_options_that_exist(name):
    text = (ROOT / name).read_text("utf-8")
    commands = " ".join(step.command for step in screens.steps(text))
    known = {option.flag for option in TABLE}
    assert set(re.findall(r"--evals-[a-z-]+", commands)) <= known


@pytest.mark.guests
@pytest.mark.parametrize("name", PAGES)
def test_tables_of_a_page_are_those_of_the_code(name):
    text = (ROOT / name).read_text(encoding="utf-8")
    assert tables.written(text) == text


def test_each_table_is_on_a_page():
    text = "".join((ROOT / name).read_text(encoding="utf-8") for name in PAGES)
    found = [match["name"] for match in tables.MARKED.finditer(text)]
    assert sorted(found) == sorted(tables.makers())


@pytest.mark.parametrize("option", TABLE, ids=lambda option: option.name)
def test_an_option_has_a_row_with_its_ini_name_and_help(option):
    rows = tables.options().splitlines()
    (row,) = [line for line in rows if re.search(f"`{option.flag}[ `]", line)]
    assert option.help.replace("|", r"\|") in row
    assert (f"`{option.dest}`" in row) == option.ini


def test_each_key_has_a_description():
    rows = [row for name in tables.KEYS for row in tables.key_rows(name)]
    assert [key for key, kind, text in rows if not (kind and text)] == []
