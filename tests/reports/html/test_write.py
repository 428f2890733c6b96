"""The report file: complete or not written, and without any markup from models."""

import base64
import hashlib
import json
import os
import re
import subprocess
import sys
import zipfile
import zlib
from pathlib import Path

import pytest

import pytest_evals.__main__
import pytest_evals.reports.html
from pytest_evals.core.comparison import (
    ModelComparison,
    ModelDocument,
    ModelMetric,
)
from pytest_evals.errors import StoreError
from pytest_evals.reports.html.documents import IMPROVED, REGRESSED
from pytest_evals.reports.html.models import write_models_html
from pytest_evals.reports.html.write import write_html

ASSETS = Path(pytest_evals.reports.html.__file__).parent / "assets"
HOSTILE = "</script><script>alert(1)</script><!-- \u2028 \x00 <img src=x onerror=y>"


def main(arguments):
    return pytest_evals.__main__.main(["report", *arguments])


def unpacked(text):
    return json.loads(zlib.decompress(base64.b64decode(text)))


def block(page, name):
    found = re.search(rf'<script type="text/plain" id="{name}">([^<]*)</script>', page)
    return unpacked(found[1])


@pytest.fixture
def run(write, tmp_path):
    rows = [write.generated(n, f"{n}? {HOSTILE}", HOSTILE) for n in range(300)]
    return write.run(tmp_path / ".evals" / "runs" / "now", {"quiz": rows})


def test_all_documents_are_in_the_page_without_further_files(run, tmp_path):
    path = tmp_path / "deep" / "report.html"
    write_html(run, path)
    page = path.read_text(encoding="utf-8")
    whole = [*block(page, "rows-0"), *block(page, "rows-1")]
    assert [one["id"] for one in whole] == [f"d{n}" for n in range(300)]
    assert whole[7]["answers"] == [[HOSTILE]]
    index = block(page, "index")
    assert index["tasks"][0]["sizes"] == [256, 44]
    assert [p.name for p in path.parent.iterdir()] == ["report.html"]


def test_all_text_of_a_document_is_escaped_in_the_page(run, tmp_path):
    path = tmp_path / "report.html"
    write_html(run, path)
    page = path.read_text(encoding="utf-8")
    assert "alert(1)" not in page
    assert "\x00" not in page
    assert "\u2028" not in page


def test_the_policy_lets_in_this_script_and_this_style_only(run, tmp_path):
    path = tmp_path / "report.html"
    write_html(run, path)
    page = path.read_text(encoding="utf-8")
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1]
    for name in ("script", "style"):
        (text,) = re.findall(rf"<{name}>(.*?)</{name}>", page, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{name}-src 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'")
    assert "require-trusted-types-for 'script'" in policy
    assert not re.search(r"unsafe|https?:|\*", policy)
    assert not re.search(r"(src|href)=\"(https?:)?//", page)


def test_script_makes_no_markup_of_text():
    """Trusted Types block it in some browsers; no browser may reach that point."""
    for path in ASSETS.glob("*.js"):
        code = path.read_text(encoding="utf-8")
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(|new Function",
            code,
        ), path.name


def test_without_script_there_is_a_table(write, tmp_path):
    gate = write.gate("quiz", "failed", reason="<b>0.7</b> is not >= 0.75")
    run = write.run(
        tmp_path / "run", {"quiz": [write.generated(0, "p", "x")]}, gates=[gate]
    )
    write_html(run, tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    plain = re.search(r"<noscript>(.*?)</noscript>", page, re.DOTALL)[1]
    assert "&lt;b&gt;0.7&lt;/b&gt; is not &gt;= 0.75" in plain
    assert "<td>exact_match,none</td><td>0.7</td><td>0.1</td>" in plain


def test_many_rows_are_in_separate_files(run, tmp_path):
    path = tmp_path / "report.html"
    write_html(run, path, largest=1000)
    page = path.read_text(encoding="utf-8")
    files_url = block(page, "index")["beside"]
    assert re.fullmatch(r"report_rows/[0-9a-f]{12}-", files_url)
    lines = (tmp_path / f"{files_url}1.js").read_text(encoding="utf-8")
    text = re.fullmatch(r'evalsRows\(1,"([^"]*)"\);\n', lines)[1]
    assert len(unpacked(text)) == 44
    assert 'id="rows-0"' not in page


def test_rows_of_an_earlier_page_go_and_files_of_others_stay(run, write, tmp_path):
    path = tmp_path / "report.html"
    write_html(run, path, largest=1000)
    folder = tmp_path / "report_rows"
    (folder / "notes.txt").write_text("mine")
    first = {p.name for p in folder.glob("*.js")}
    other = write.run(tmp_path / "other", {"quiz": [write.generated(0, "p", "x")]})
    write_html(other, path, largest=10)
    second = {p.name for p in folder.glob("*.js")}
    assert len(first) == 2
    assert len(second) == 1
    assert not first & second
    write_html(other, path)
    assert [p.name for p in folder.iterdir()] == ["notes.txt"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_an_error(run):
    with pytest.raises(StoreError, match=r"cannot write '/dev/full': No space left"):
        write_html(run, Path("/dev/full"))


def test_a_page_that_cannot_be_written_leaves_the_earlier_one(run, tmp_path):
    path = tmp_path / "report.html"
    path.write_text("earlier")
    (tmp_path / "report_rows").write_text("a file where the folder would be")
    with pytest.raises(StoreError, match="report_rows"):
        write_html(run, path, largest=1000)
    assert path.read_text() == "earlier"


def test_a_results_file_of_another_program_gives_a_reduced_page(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "results.json").write_text('{"results": {"arc": {"acc,none": 0.5}}}')
    assert main([str(folder), "-o", str(tmp_path / "out.html")]) == 0
    facts = block((tmp_path / "out.html").read_text(encoding="utf-8"), "facts")
    assert facts["parts"]["arc"]["metrics"][0]["value"] == 0.5
    assert facts["gates"] == []


def test_history_has_runs_of_the_same_numbers_oldest_first(write, tmp_path):
    rows = {"quiz": [write.generated(0, "p", "x")]}
    base = tmp_path / ".evals" / "runs"
    for n, value in enumerate((0.5, 0.6, 0.9)):
        numbers = {"quiz": {"exact_match,none": value, "exact_match_stderr,none": 0.1}}
        hashes = {"quiz": "other" if n == 0 else "same"}
        write.run(
            base / f"2026010{n}",
            rows,
            results=numbers,
            task_hashes=hashes,
            date=1000.0 + n,
        )
    out = tmp_path / "out.html"
    assert main([str(base / "20260101"), "-o", str(out)]) == 0
    points = block(out.read_text(encoding="utf-8"), "facts")["history"]["quiz"]
    (found,) = points.values()
    # the third run is newer than the one of the report
    assert [(p["value"], p["same"]) for p in found] == [(0.5, False), (0.6, True)]


def test_history_names_the_runs_that_are_baselines(write, tmp_path):
    rows = {"quiz": [write.generated(0, "p", "x")]}
    base = tmp_path / ".evals"
    for n in range(2):
        write.run(base / f"runs/2026010{n}", rows, date=1000.0 + n)
    write.run(base / "baselines/main", rows, date=1000.0)
    out = tmp_path / "out.html"
    assert main([str(base / "runs/20260101"), "-o", str(out)]) == 0
    points = block(out.read_text(encoding="utf-8"), "facts")["history"]["quiz"]
    (found,) = points.values()
    assert [p["baseline"] for p in found] == ["main", ""]


def test_other_runs_of_the_same_requests_are_in_the_index(write, tmp_path):
    """The newest ones by default; otherwise the named ones, whatever their options
    were."""
    base = tmp_path / ".evals" / "runs"
    for n, prompt in enumerate("pppqp"):
        rows = [write.generated(i, prompt, f"{n}", correct=i < n) for i in range(3)]
        hashes = {"quiz": prompt}
        write.run(base / f"{n}", {"quiz": rows}, date=1000.0 + n, task_hashes=hashes)
    out = tmp_path / "out.html"

    def shown(*others):
        folders = [str(base / one) for one in ("4", *others)]
        assert main([*folders, "-o", str(out)]) == 0
        text = out.read_text(encoding="utf-8")
        dates = [one and one["date"] for one in block(text, "facts")["runs"]]
        (task,) = block(text, "index")["tasks"]
        return dates, [(run["states"], run["answers"][0]) for run in task["runs"]]

    dates, runs = shown()
    assert dates == [None, 1000.0, 1001.0, 1002.0]
    assert runs == [("   ", ""), ("www", "0"), ("rww", "1"), ("rrw", "2")]
    dates, runs = shown("2", "3")
    assert dates == [None, 1002.0, 1003.0]
    assert runs[1:] == [("rrw", "2"), ("rrr", "3")]  # found by the hash of the row


def test_groups_of_compared_tasks_are_compared(write, tmp_path):
    base = tmp_path / ".evals" / "runs"
    for n in range(2):
        tasks = {
            name: [write.generated(0, name, "x", doc_hash=name)]
            for name in ("one", "two")
        }
        numbers = {"alias": "x", "exact_match,none": 0.5 + n / 4}
        names = ("one", "two", "both", "other")
        write.run(
            base / f"{n}",
            tasks,
            date=1000.0 + n,
            results=dict.fromkeys(names, numbers),
            group_subtasks={"both": ["one", "two"], "other": ["one", "three"]},
        )
    out = tmp_path / "out.html"
    assert main([str(base / "1"), "--compare", str(base / "0"), "-o", str(out)]) == 0
    found = block(out.read_text(encoding="utf-8"), "facts")["comparison"]
    changes = {one["task"]: (one["before"], one["now"]) for one in found["metrics"]}
    assert changes == dict.fromkeys(("one", "two", "both"), (0.5, 0.75))
    assert "worse" not in found  # the index has these documents


def test_command_compares_with_any_stored_run(write, tmp_path, capsys):
    base = tmp_path / ".evals" / "runs"
    before = [write.generated(n, "p", "x", correct=n < 2) for n in range(3)]
    now = [write.generated(n, "p", "y", correct=n > 0) for n in range(3)]
    write.run(base / "a", {"quiz": before})
    write.run(base / "b", {"quiz": now})
    out = tmp_path / "out.html"
    given = [str(base / "b"), "-o", str(out), "--compare", str(base / "a")]
    assert main(given) == 0
    assert capsys.readouterr().out == f"report: {out}\n"
    page = out.read_text(encoding="utf-8")
    found = block(page, "facts")["comparison"]
    assert found["n_paired"] == 3
    (task,) = block(page, "index")["tasks"]
    assert [n for n, flag in enumerate(task["flags"]) if flag & REGRESSED] == [0]
    assert [n for n, flag in enumerate(task["flags"]) if flag & IMPROVED] == [2]
    assert block(page, "rows-0")[0]["before"]["answers"] == [["x"]]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            ["nowhere"],
            "error: nowhere: no such file or folder\n",
        ),
        (
            [".", "-o", "."],
            "error: cannot write '.': it is a folder\n"
            "  fix: add the name of a file to -o",
        ),
    ],
)
def test_the_command_reports_errors(given, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results.json").write_text("{}")
    assert main(given) == 2
    assert capsys.readouterr().err.startswith(message)


def test_the_command_lists_the_baselines(write, tmp_path, capsys):
    rows = {"quiz": [write.generated(0, "p", "x")]}
    run = write.run(tmp_path / ".evals" / "runs" / "a", rows)
    write.run(tmp_path / ".evals" / "baselines" / "main", rows)
    assert main([str(run.path), "--compare", "mian"]) == 2
    assert "did you mean 'main'?" in capsys.readouterr().err


@pytest.mark.slow
def test_module_runs_as_a_command(run, tmp_path):
    command = [sys.executable, "-m", "pytest_evals", "report", str(run.path)]
    done = subprocess.run(
        [*command, "-o", "out.html"], cwd=tmp_path, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (0, "report: out.html\n"), done.stderr


def test_the_wheel_has_style_and_scripts(tmp_path):
    wheel = pytest.importorskip("hatchling.builders.wheel")
    builder = wheel.WheelBuilder(os.fspath(Path(__file__).parents[3]))
    (path,) = builder.build(directory=os.fspath(tmp_path), versions=["standard"])
    names = {Path(name).name for name in zipfile.ZipFile(path).namelist()}
    assert {p.name for p in ASSETS.iterdir()} <= names


def test_models_after_the_last_column_are_named(tmp_path):
    names = [f"m{n}" for n in range(65)] + [HOSTILE]
    metrics = tuple(
        ModelMetric(task="t", key="acc,none", model=name, value=n / 100)
        for n, name in enumerate(names)
    )
    document = ModelDocument(task="t", id="a", correct=(True,) * 66, answers=(*names,))
    found = ModelComparison(
        models=(*names,), reference="m0", metrics=metrics, documents=(document,)
    )
    write_models_html(found, tmp_path / "r.html", {})
    page = (tmp_path / "r.html").read_text("utf-8")
    data = block(page, "models")
    assert data["models"] == data["documents"][0]["answers"] == names[:64]
    assert len(data["metrics"][0]["cells"]) == 64
    assert data["refused"] == [f"not shown, after 64 columns: m64, {HOSTILE}"]
    assert "<script>alert(1)" not in page
