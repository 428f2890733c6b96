"""``judge`` on rows of any program: ids, duplicates, outputs, exit codes."""

import base64
import json
import random
import re
import subprocess
import sys
import zlib
from xml.etree import ElementTree

import pytest

from pytest_evals.__main__ import main
from pytest_evals.judge_command import columns
from tests.result_files.formats import lm_eval

DROP = '{"metric": "acc", "max_drop": 0.02}'


def write(path, rows):
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    return str(path)


@pytest.fixture
def rows():
    rng = random.Random(3)
    return [{"id": f"q{i}", "acc": int(rng.random() < 0.8)} for i in range(500)]


@pytest.mark.slow
def test_documents_are_paired_by_id(rows, tmp_path, capsys):
    new = write(tmp_path / "new.jsonl", rows)
    shuffled = random.Random(1).sample(rows, len(rows))
    old = write(tmp_path / "old.jsonl", shuffled)
    assert main(["judge", new, DROP, "--baseline", old]) == 0
    assert "500 documents: 0 worse, 0 better" in capsys.readouterr().out
    for row in shuffled:
        row["key"] = row.pop("id")
    old = write(tmp_path / "old.jsonl", shuffled)
    assert main(["judge", new, DROP, "--baseline", old, "--id", "key"]) == 2
    assert "new.jsonl:1: no key 'key'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("metric", "more", "is_noted"),
    [
        ("marks", [], True),
        ("marks", ["--range=0,1"], False),
        ("rouge1", [], True),
        ("acc", [], False),
    ],
)
def test_an_assumed_range_of_scores_is_noted(tmp_path, capsys, metric, more, is_noted):
    """Unless it is known, or set."""
    values = [int(i % 5 > 0) if metric == "acc" else i / 100 for i in range(60)]
    new = write(
        tmp_path / "new.jsonl", [{"id": i, metric: v} for i, v in enumerate(values)]
    )
    gate = json.dumps({"metric": metric, "min": 0.1, "over": "population"})
    assert main(["judge", new, gate, *more]) == 0
    shown = capsys.readouterr().out
    assert (f"{metric} is assumed to be from 0 to 1" in shown) == is_noted


@pytest.mark.slow
def test_a_shuffled_baseline_gives_the_same_verdict(rows, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = random.Random(2)
    old = [row | {"acc": int(rng.random() < 0.95)} for row in rows]
    command = [sys.executable, "-m", "pytest_evals", "judge", "new.jsonl", "acc >= 0.7"]
    command += [DROP, "--baseline", "old.jsonl"]
    write(tmp_path / "new.jsonl", rows)

    def judged(baseline):
        write(tmp_path / "old.jsonl", baseline)
        done = subprocess.run(command, capture_output=True, text=True)
        return done.returncode, done.stdout, done.stderr

    expected = judged(old)
    assert expected[0] == 1
    assert expected[1].endswith("verdict: no-go: 1 of 2 gates failed\n")
    assert judged(rng.sample(old, len(old))) == expected


def test_shares_of_correct_answers_are_judged_without_slow_imports(rows, tmp_path):
    path = write(tmp_path / "a.jsonl", rows)
    gates = ["acc >= 0.7", '{"metric": "acc", "min": 0.7, "over": "population"}', DROP]
    script = (
        "import sys; from pytest_evals.__main__ import main; "
        "code = main(sys.argv[1:]); "
        "sys.exit(code or bool({'numpy', 'scipy'} & {*sys.modules}))"
    )
    command = [sys.executable, "-c", script, "judge", path, *gates, "--baseline", path]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_only_file_of_a_folder_is_read_as_on_its_own(rows, tmp_path):
    renamed = [{"key": row["id"], "acc": row["acc"]} for row in rows]
    for name in ("new", "old"):
        (tmp_path / name).mkdir()
        write(tmp_path / name / "quiz.jsonl", renamed)
    folders = [str(tmp_path / "new"), "--baseline", str(tmp_path / "old")]
    assert main(["judge", *folders, "--id", "key", DROP]) == 0


def test_without_ids_position_counts_and_the_output_says_so(rows, tmp_path, capsys):
    bare = [{"acc": row["acc"]} for row in rows]
    new, old = write(tmp_path / "n.jsonl", bare), write(tmp_path / "o.jsonl", bare)
    assert main(["judge", new, DROP, "--baseline", old]) == 0
    assert "n.jsonl: the rows have no id, so position counts" in capsys.readouterr().out


def test_a_line_ends_at_a_line_feed_only(tmp_path, capsys):
    rows = [{"id": i, "acc": 1, "text": "a\u2028b\x85c"} for i in range(3)]
    assert main(["judge", write(tmp_path / "a.jsonl", rows), "acc >= 1"]) == 0
    assert "3" in capsys.readouterr().out


def test_equal_rows_of_one_id_count_once_and_others_are_errors(tmp_path, capsys):
    rows = [{"id": i, "acc": 1} for i in range(10)]
    path = write(tmp_path / "a.jsonl", [*rows, rows[0]])
    assert main(["judge", path, "acc >= 1"]) == 0
    out = capsys.readouterr().out
    assert "1 document (0) with several rows of one id, counted once" in out
    assert "10" in out
    path = write(tmp_path / "a.jsonl", [*rows, {"id": 0, "acc": 0}])
    assert main(["judge", path, "acc >= 1"]) == 1
    out = capsys.readouterr().out
    assert "2 different rows have this id" in out
    assert "INVALID" in out
    assert main(["judge", path, "acc >= 0.9"]) == 0


def test_an_inconclusive_gate_decides_as_asked(tmp_path):
    rows = [{"id": i, "acc": i < 95} for i in range(100)]
    path = write(tmp_path / "a.jsonl", rows)
    gate = '{"metric": "acc", "min": 0.9, "over": "population"}'
    codes = {
        policy: main(["judge", path, gate, "--inconclusive", policy])
        for policy in ("warn", "fail", "pass")
    }
    assert codes == {"warn": 0, "fail": 1, "pass": 0}


@pytest.mark.parametrize(
    ("gates", "line", "code"),
    [
        (["acc >= 0.1"], "verdict: go: 1 of 1 gate passed", 0),
        (["acc >= 0.1", "acc >= 0.99"], "verdict: no-go: 1 of 2 gates failed", 1),
        (
            ['{"metric": "acc", "min": 0.8, "over": "population"}', "acc >= 0.1"],
            "verdict: undecided: 1 of 2 gates inconclusive",
            0,
        ),
        (
            ['{"metric": "acc", "min": 0.99, "advisory": true}', "acc >= 0.1"],
            "verdict: go: 1 of 1 gate passed, 1 advisory",
            0,
        ),
    ],
)
def test_the_last_line_is_the_verdict(rows, tmp_path, capsys, gates, line, code):
    path = write(tmp_path / "a.jsonl", rows)
    assert main(["judge", path, *gates]) == code
    assert capsys.readouterr().out.splitlines()[-1] == line


def test_gates_of_a_file_are_judged_by_the_names_of_tasks(rows, tmp_path, capsys):
    path = write(tmp_path / "quiz.jsonl", rows)
    gates = tmp_path / "gates.yaml"
    gates.write_text(
        "gates:\n  - quiz/acc >= 0.99\n  - {task: quiz, metric: acc, min: 0.5}\n"
    )
    assert main(["judge", path, "--gates", str(gates)]) == 1
    assert "FAILED quiz::acc" in capsys.readouterr().out
    gates.write_text("gates: [other/acc >= 0.99]\n")
    assert main(["judge", path, "--gates", str(gates)]) == 2
    assert "unknown task 'other'; known: quiz" in capsys.readouterr().err


def test_reports_are_written(rows, tmp_path, capsys):
    path = write(tmp_path / "quiz.jsonl", rows)
    worse = [{**row, "acc": 0} if n < 100 else row for n, row in enumerate(rows)]
    new = write(tmp_path / "new.jsonl", worse)
    files = {
        one: str(tmp_path / f"r.{one}") for one in ("json", "markdown", "html", "junit")
    }
    options = [word for name, file in files.items() for word in (f"--{name}", file)]
    code = main(["judge", new, DROP, "--baseline", path, *options])
    assert code == 1
    found = json.loads((tmp_path / "r.json").read_text())
    assert (found["exit_code"], found["verdict"]) == (1, "failed")
    case = ElementTree.parse(tmp_path / "r.junit").find(".//testcase")
    assert case.find("failure") is not None
    assert "1 failed of 1 gate" in (tmp_path / "r.markdown").read_text()
    page = (tmp_path / "r.html").read_text()
    index = re.search(r'id="index">([^<]*)<', page)[1]
    assert b'"q0"' in zlib.decompress(base64.b64decode(index))


def test_a_gate_on_a_baseline_needs_one(rows, tmp_path, capsys):
    path = write(tmp_path / "a.jsonl", rows)
    gate = '{"metric": "acc", "baseline": "main", "max_drop": 0.02}'
    assert main(["judge", path, gate]) == 2
    assert "fix: --baseline OLD" in capsys.readouterr().err


def test_fixes_name_no_options_of_pytest(rows, tmp_path, capsys):
    for name, shots in (("new", 0), ("old", 5)):
        results = {"results": {"quiz": {}}, "n-shot": {"quiz": shots}}
        results |= {"configs": {"quiz": {"task": "quiz"}}, "versions": {"quiz": 1}}
        (tmp_path / name).mkdir()
        date = "2026-11-27T10-00-00.000000"
        (tmp_path / name / f"results_{date}.json").write_text(json.dumps(results))
        samples = [
            {"doc_id": at, "filter": "none", "metrics": ["acc"], "acc": row["acc"]}
            for at, row in enumerate(rows)
        ]
        write(tmp_path / name / f"samples_quiz_{date}.jsonl", samples)
    given = ["judge", str(tmp_path / "new"), "--baseline", str(tmp_path / "old")]
    assert main([*given, DROP]) == 1
    assert "pass other results with --baseline" in (out := capsys.readouterr().out)
    assert "--evals" not in out
    assert main([*given, "acc >> 0.5"]) == 2
    assert "error: gate 1: " in (error := capsys.readouterr().err)
    assert "--evals" not in error


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl", "", "no documents in it"),
        ("a.jsonl", '{"id": 1, "acc": "good"}\n', "a.jsonl:1: acc must be a number"),
        ("a.jsonl", '{"id": 1, "acc": NaN}\n', "a.jsonl:1: acc must be a number"),
        ("a.csv", "id,acc\n1\n", "a.csv:2: the line has not as many cells"),
        ("a.json", '{"a": 1}', "unknown format"),
        ("a.parquet", "x", "a.parquet: not a Parquet file"),
        ("a.eval", "PK\x03\x04", "a.eval: not a log of inspect"),
        ("nothing", None, "no such file or folder"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(tmp_path, capsys, name, content, message):
    path = tmp_path / name
    if content is not None:
        path.write_text(content)
    assert main(["judge", str(path), "acc >= 0.9"]) == 2
    assert message in capsys.readouterr().err


PLAIN_GATES = [
    "acc >= 0.5",
    "acc >= 0.99",
    "acc >= 1.5",
    '{"metric": "acc", "min": 0.8, "over": "population"}',
    '{"metric": "acc", "min": 0.75, "confidence": 0.9}',
    '{"metric": "acc", "max": 0.9, "advisory": true}',
]


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [
        {},
        {"acc": 0.25},
        {"acc": True},
        {"acc": None},
        {"acc": "1"},
        {"id": "q0"},
        {"filter": "strict"},
        {"error": "down"},
        {"epoch": 1},
    ],
)
def test_large_files_have_the_verdicts_of_small_ones(
    change, rows, tmp_path, capsys, monkeypatch
):
    rows[7] |= change
    path, out = write(tmp_path / "rows.jsonl", rows), tmp_path / "out.json"

    def found():
        texts = []
        for gate in PLAIN_GATES:
            code = main(["judge", path, gate, "--json", str(out)])
            results = json.loads(out.read_text()) if code != 2 else {}
            shown = capsys.readouterr()
            last = shown.out.splitlines()[-1:]
            kept = [results.get(key) for key in ("gates", "results", "counts")]
            texts.append((code, shown.err, last, kept))
            out.unlink(missing_ok=True)
        return texts

    expected = found()
    monkeypatch.setattr(columns, "LARGE", 0)
    assert found() == expected


CHANGE_GATES = [
    DROP,
    '{"metric": "acc", "max_drop": 0.2}',
    '{"metric": "acc", "max_drop": 0.02, "over": "run"}',
    '{"metric": "acc", "max_drop": "3%", "min_overlap": 0.5}',
    '{"metric": "acc", "max_rise": 0.01, "higher_is_better": false}',
]


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [
        lambda rows: rows,
        lambda rows: [*rows[:-1], {"id": "new", "acc": 1, "prompt": "?", "answer": ""}],
        lambda rows: rows[300:],
        lambda rows: [*rows, {"id": "q600", "acc": 0, "prompt": "?", "answer": "b"}],
        lambda rows: [row | {"prompt": row["prompt"] + "!"} for row in rows],
        lambda rows: [row | {"acc": row["acc"] / 2} for row in rows],
        lambda rows: [row | {"id": row["id"] + "x"} for row in rows],
    ],
    ids=["same", "one_other", "fewer", "more", "prompts", "halves", "no_pair"],
)
def test_large_files_have_the_changes_of_small_ones(
    change, rows, tmp_path, capsys, monkeypatch
):
    rng = random.Random(7)
    rows = [row | {"prompt": f"{row['id']}?", "answer": "a"} for row in rows]
    old = [row | {"acc": int(rng.random() < 0.8), "answer": "b"} for row in rows]
    rng.shuffle(old)
    new = write(tmp_path / "new.jsonl", rows)
    path, out = write(tmp_path / "old.jsonl", change(old)), tmp_path / "out.json"

    def found():
        texts = []
        for gate in CHANGE_GATES:
            code = main(["judge", new, gate, "--baseline", path, "--json", str(out)])
            results = json.loads(out.read_text()) if code != 2 else {}
            shown = capsys.readouterr()
            # Which of the changed documents are named differs, and how many are known.
            lines = [one for one in shown.out.splitlines() if not one.startswith("  ")]
            kept = [results.get(key) for key in ("gates", "results", "comparison")]
            texts.append((code, shown.err, lines, kept))
            out.unlink(missing_ok=True)
        return texts

    expected = found()
    monkeypatch.setattr(columns, "LARGE", 0)
    assert found() == expected


@pytest.fixture
def folders(tmp_path):
    rng = random.Random(5)
    for side in ("new", "old"):
        for name, metric in (("arc.jsonl", "acc"), ("sums/exact.jsonl", "f1")):
            path = tmp_path / side / name
            path.parent.mkdir(parents=True, exist_ok=True)
            scores = [int(rng.random() < 0.8) for _ in range(200)]
            write(path, [{"id": n, metric: one} for n, one in enumerate(scores)])
        (tmp_path / side / "settings.json").write_text('{"seed": 1}')
        (tmp_path / side / "people.csv").write_text("id,name\n1,Ada\n")
    return tmp_path / "new", tmp_path / "old"


def test_each_row_file_of_a_folder_is_a_task(folders, capsys):
    new, old = map(str, folders)
    gates = ["arc/acc >= 0.5", "exact/f1 >= 0.5", '{"metric": "acc", "max_drop": 0.3}']
    assert main(["judge", new, *gates, "--baseline", old]) == 0
    out = capsys.readouterr().out
    assert out.startswith("note: people.csv: left out, no row has a score\n\n")
    assert "400 documents: " in out
    assert out.endswith("verdict: go: 3 of 3 gates passed\n")
    assert main(["judge", new, "arc/f1 >= 0.5"]) == 2
    assert "no document has the metric 'f1'" in capsys.readouterr().err
    assert main(["judge", new, "bleu >= 0.5"]) == 2
    assert "no key 'bleu'; the keys are 'id', 'acc'" in capsys.readouterr().err


def test_files_of_one_name_in_a_folder_are_refused(folders, capsys):
    new = folders[0]
    (new / "arc.jsonl").rename(new / "sums/arc.jsonl")
    assert main(["judge", str(new), "acc >= 0.5"]) == 0
    write(new / "arc.jsonl", [{"id": 1, "acc": 1}])
    capsys.readouterr()
    assert main(["judge", str(new), "acc >= 0.5"]) == 2
    assert "arc.jsonl and sums/arc.jsonl are of one task" in capsys.readouterr().err


def test_without_gates_known_metrics_of_rows_are_shown(folders, capsys):
    assert main(["judge", str(folders[0])]) == 0
    out = capsys.readouterr().out
    assert re.search(r"^arc +200 .* acc +0\.\d+ +± 0\.0\d+$", out, re.M)
    assert re.search(r"^exact +200 .* f1 +0\.\d+ +± 0\.0\d+$", out, re.M)


def test_worse_documents_of_a_failed_gate_show_the_answer_before_and_now(
    tmp_path, capsys
):
    sides = (("new.jsonl", 0, "5"), ("old.jsonl", 1, "4"))
    for name, score, answer in sides:
        rows = [{"id": n, "acc": 1, "prompt": f"{n}?", "answer": "4"} for n in range(9)]
        rows[3] |= {"acc": score, "answer": answer, "target": "4"}
        write(tmp_path / name, rows)
    gate = '{"metric": "acc", "max_drop": 0, "over": "run"}'
    new, old = (str(tmp_path / name) for name, _, _ in sides)
    assert main(["judge", new, gate, "--baseline", old]) == 1
    lines = [one.split() for one in capsys.readouterr().out.splitlines()]
    at = lines.index(["new[3]"])
    expected = [["prompt", "3?"], ["was", "4"], ["now", "5"], ["target", "4"]]
    assert lines[at + 1 : at + 5] == expected


def test_answers_that_are_not_in_the_files_do_not_agree(rows, tmp_path, capsys):
    paths = [write(tmp_path / f"{side}.jsonl", rows) for side in ("new", "old")]
    gate = '{"metric": "agreement", "min": 0.9, "baseline": "old"}'
    assert main(["judge", paths[0], gate, "--baseline", paths[1]]) == 1
    assert "1 of 1 gate invalid" in capsys.readouterr().out
    for path in paths:
        write(tmp_path / path, [row | {"answer": "a"} for row in rows])
    assert main(["judge", paths[0], gate, "--baseline", paths[1]]) == 0


@pytest.mark.parametrize(("span", "is_proven"), [("0,1", True), ("0,30", False)])
def test_the_table_of_changes_has_the_range_of_the_gates(
    span, is_proven, tmp_path, capsys
):
    """10 of 200 documents are worse and none is better: a proven drop of a share."""
    sides = []
    for name, n_wrong in (("new", 10), ("old", 0)):
        folder = tmp_path / name
        lm_eval(folder, {f"q{i}": float(i >= n_wrong) for i in range(200)})
        for path in folder.rglob("*.json*"):  # a metric of unknown range
            path.write_text(path.read_text().replace("exact_match", "polite"))
        sides.append(str(folder))
    gate = '{"metric": "polite", "max_drop": 0.5}'
    main(["judge", sides[0], gate, "--baseline", sides[1], f"--range={span}"])
    low, high = re.findall(r"-0\.050 +\[(\S+), (\S+)\]", capsys.readouterr().out)[0]
    assert (float(high) < 0) == (float(low) > -0.2) == is_proven
