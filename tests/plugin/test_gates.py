"""Gates as tests, in whole runs: a table of suites and what a run of each prints.

The task ``quiz`` has ten documents (see ``conftest.py``). Line 13 of its file is the
first of its gates.
"""

from __future__ import annotations

import json
import math
import sqlite3
import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import pytest
import yaml

from pytest_evals import OptionError, Response, evaluate, judge_gate
from pytest_evals.errors import TaskFileError
from tests.plugin.test_api import Knowing

REFUSED, INTERRUPTED = pytest.ExitCode.USAGE_ERROR, pytest.ExitCode.INTERRUPTED
BOTH = ("quiz", "zoo")
VS_MAIN = {"metric": "exact_match", "baseline": "main"}
OPEN = {"metric": "exact_match", "min": 0.7, "over": "population"}
LOW = {"metric": "exact_match", "min": 0.1, "id": "low"}
INFO = {
    "cpu": {"dtype": "float32", "device": "cpu", "device_name": "x86_64"},
    "h100": {
        "dtype": "bfloat16",
        "device": "cuda:1",
        "device_name": "NVIDIA H100 80GB",
    },
}
MODEL = """
import pytest
from pytest_evals import Response

class Model:
    name = "hf:org/small"
    info = {info!r}

    def answer(self, requests):
        for position, request in enumerate(requests):
            yield position, Response(text="a" + request.prompt[-2], finish="stop")

@pytest.fixture(scope="session")
def eval_model():
    return Model()
"""
NO_MODEL = """
import pytest
from pytest_evals import ModelError

@pytest.fixture(scope="session")
def eval_model():
    raise ModelError("no model")
"""
METRICS_HOOK = "def pytest_evals_metrics(task, records): return {'accuracy': 0.8}\n"
SCORE_HOOK = """
from pytest_evals import Score
def pytest_evals_score(record, task):
    return [Score(metric="accuracy", value=1.0)]
"""
ASSERT = """
from pytest_evals import assert_gate

def test_it(eval_results):
    assert_gate("{gate}", eval_results{keys})
"""


@dataclass(frozen=True, kw_only=True)
class Case:
    """A suite, a command, and lines of its output."""

    gates: Sequence[Any] = ()
    task: Mapping[str, Any] = field(default_factory=dict)
    """Further keys of ``quiz``."""
    append: str = ""
    """Text after the keys of ``quiz``."""
    tasks: Sequence[str] = ("quiz",)
    """The tasks of the suite, of which all but the first have no gates."""
    group: Mapping[str, Any] = field(default_factory=dict)
    """Keys of the group ``bag``."""
    files: Mapping[str, str] = field(default_factory=dict)
    wrong: Sequence[int] = ()
    errors: Sequence[int] = ()
    before: Sequence[str] = ()
    """Arguments of an earlier run of the same suite."""
    args: Sequence[str] = ("evals",)
    model: str | None = "scripted:answers.jsonl"
    ret: int = 0
    outcomes: Mapping[str, int] | None = None
    lines: Sequence[str] = ()
    absent: str = ""
    warns: str = ""
    """Part of a warning in ``results.json``."""


def case(name: str, *gates: Any, **keys: Any) -> Any:
    return pytest.param(Case(gates=gates, **keys), id=name)


CASES = [
    case("exactly at its threshold", "exact_match >= 0.7", wrong=[0, 1, 2]),
    case(
        "a failed gate shows numbers, place and examples",
        "exact_match >= 0.95",
        wrong=[2, 3, 5, 8],
        ret=1,
        lines=[
            "*quiz: exact_match >= 0.95*",
            "exact_match 0.600 is not >= 0.95 (6 of 10)*",
            "evals/quiz.yaml:13",
            "E   4 more correct answers would have passed.",
            "  wrong (3 of 4)",
            "    quiz[[]q2[]]",
            "      prompt  quiz 2?",
            "      answer  nonsense",
            "      target  a2",
            "FAILED evals/quiz.yaml::quiz::exact_match - exact_match 0.600 is not *",
        ],
        absent="*Traceback*",
    ),
    case(
        "over part of its documents",
        "exact_match > 0",
        args=["evals", "-k", "q1 or exact_match"],
        outcomes={"passed": 1, "skipped": 1, "deselected": 9},
        lines=["*of 10 documents were run*"],
    ),
    case(
        "under a limit",
        "exact_match >= 1",
        wrong=[5],
        args=["evals", "--evals-limit=5"],
        lines=["*5 of 10*"],
    ),
    case(
        "errored documents could change it",
        "exact_match >= 0.85",
        errors=[1, 2],
        args=["evals", "-v"],
        ret=1,
        lines=[
            "evals/quiz.yaml::quiz::exact_match INVALID *",
            "invalid: 2 of 10 documents have no score (2 errored); the value is "
            "between 0.800 and 1.000, so they decide the gate",
            "INVALID evals/quiz.yaml::quiz::exact_match - invalid: 2 of 10 *",
        ],
    ),
    case(
        "a function returns no such metric",
        "politeness >= 0.5",
        "length >= 3",
        append="process_results: !function own.score\n",
        files={
            "evals/own.py": "def score(doc, results):\n"
            "    return {'exact_match': 1, 'length': 3}\n"
        },
        ret=1,
        outcomes={"passed": 11, "failed": 1},
        lines=["*unknown metric 'politeness'*exact_match*"],
    ),
    case(
        "a function's values have any range",
        "exact_match >= 75",
        append="process_results: !function own.score\n",
        files={
            "evals/own.py": "def score(doc, results):\n"
            "    return {'exact_match': 100 * (results[0] == doc['answer'])}\n"
        },
        lines=["*exact_match is between 0 and 1, so >= 75 never holds*as usual*"],
    ),
    case(
        "selected by a tag",
        "exact_match >= 0.95",
        task={"tag": "quick"},
        wrong=[3],
        args=["evals", "-m", "quick"],
        ret=1,
    ),
    case(
        "gates.yml",
        files={"evals/gates.yml": "gates:\n  - quiz/exact_match >= 0.95\n"},
        wrong=[3],
        ret=1,
    ),
    case(
        "no model",
        "exact_match > 0",
        files={"conftest.py": NO_MODEL},
        model=None,
        ret=1,
        absent="*passed*",
    ),
    case(
        "must_pass names the wrong document",
        {"must_pass": ["q1", "q2"]},
        wrong=[2],
        ret=1,
        lines=["FAILED evals/quiz.yaml::quiz::must-pass - 1 of 2*q2"],
    ),
    case(
        "of a deselected task",
        tasks=("quiz", "second"),
        files={"evals/gates.yaml": "gates: [second/exact_match >= 0.5]\n"},
        args=["evals", "--evals-tasks=quiz"],
        outcomes={"passed": 10},
    ),
    case(
        "on a hook's metric, by id",
        "accuracy >= 0.5",
        files={"conftest.py": METRICS_HOOK},
        before=["evals"],
        args=["evals/quiz.yaml::quiz::accuracy"],
        outcomes={"passed": 11},
    ),
    *(
        case(
            f"on the metric of a {name} hook{workers}",
            "accuracy >= 0.5",
            files={"evals/conftest.py": hook},
            args=["evals", *workers.split()],
            outcomes={"passed": 11},
        )
        for name, hook in (("metrics", METRICS_HOOK), ("score", SCORE_HOOK))
        for workers in ("", " -n2")
    ),
    case(
        "with one of its documents",
        "exact_match >= 0.95",
        LOW,
        wrong=[2],
        args=["evals/quiz.yaml::quiz[q2]", "evals/quiz.yaml::quiz::exact_match"],
        ret=1,
        outcomes={"passed": 9, "wrong": 1, "failed": 1},
    ),
    case(
        "without its documents",
        LOW,
        wrong=[2],
        args=["evals/quiz.yaml::quiz::low", "-k", "low"],
        outcomes={"passed": 10, "wrong": 1},
    ),
    case(
        "a deselected document",
        LOW,
        args=["evals/quiz.yaml::quiz::low", "--deselect=evals/quiz.yaml::quiz[q1]"],
        outcomes={"passed": 9, "skipped": 1, "deselected": 1},
        lines=["*9 of 10 documents were run*"],
    ),
    case(
        "validated by its id",
        LOW,
        args=["evals/quiz.yaml::quiz::low", "--evals-validate"],
        outcomes={"passed": 1},
    ),
    case(
        "its policy",
        {**OPEN, "inconclusive": "fail"},
        wrong=[1, 2],
        ret=1,
        lines=["*not enough documents to tell: *"],
    ),
    case(
        "a group with the flip rates of its tasks",
        tasks=BOTH,
        group={"task": [*BOTH], "gates": [OPEN]},
        wrong=[1, 2],
        lines=["bag::exact_match inconclusive, not enough documents to tell: *"],
    ),
    case(
        "no power",
        {"metric": "exact_match", "min": 0.9, "over": "population"},
        args=["evals", "--collect-only"],
        model=None,
        lines=[
            "evals: warning: quiz::exact_match: not even 10 correct answers would make "
            "it pass; that needs 29 documents"
        ],
    ),
    case(
        "an unknown baseline",
        {**VS_MAIN, "max_drop": 0.1},
        ret=1,
        lines=[
            "invalid: unknown baseline 'main' (not a run folder either). "
            "Create it: --evals-save-baseline=main"
        ],
    ),
    case(
        "an unknown baseline, before the run",
        {**VS_MAIN, "max_drop": 0.3},
        args=["evals", "--collect-only"],
        model=None,
        lines=[
            "evals: warning: quiz::exact_match-vs-main: it will be invalid: unknown "
            "baseline 'main' (not a run folder either). "
            "Create it: --evals-save-baseline=main"
        ],
    ),
    case(
        "the run that saves its baseline",
        {**VS_MAIN, "max_drop": 0.3},
        args=["evals", "--collect-only", "--evals-save-baseline=main"],
        model=None,
        absent="*it will be invalid*",
    ),
    case(
        "a misspelt baseline",
        {"metric": "exact_match", "baseline": "mian", "max_drop": 0},
        before=["evals", "--evals-save-baseline=main"],
        ret=1,
        lines=["invalid: unknown baseline 'mian'*'main'?*"],
    ),
    case(
        "another limit than the baseline's",
        {**VS_MAIN, "max_drop": 0.1},
        before=["evals", "--evals-save-baseline=main"],
        args=["evals", "--evals-limit=5"],
        ret=1,
        lines=["*5 documents instead of 10 (limit or sample)*"],
    ),
    case(
        "part of the baseline's documents",
        {**VS_MAIN, "max_drop": 0.1, "id": "sure"},
        before=["evals", "--evals-save-baseline=main"],
        args=["evals", "-k", "q1 or sure"],
        outcomes={"passed": 1, "skipped": 1, "deselected": 9},
    ),
    case(
        "the second filter of a baseline",
        {"metric": "exact_match,b", "baseline": "main", "max_drop": 0, "over": "run"},
        task={
            "filter_list": [
                {"name": name, "filter": [{"function": "take_first"}]} for name in "ab"
            ]
        },
        before=["evals", "--evals-save-baseline=main"],
        outcomes={"passed": 11},
    ),
    case(
        "a wrong direction",
        {**VS_MAIN, "max_rise": 0.1},
        args=["evals", "--evals-validate"],
        model=None,
        ret=1,
        lines=["*higher is better for exact_match: use max_drop*"],
    ),
    case(
        "conditions on the machine",
        {"metric": "exact_match", "min": 0.99, "when": {"dtype": "bf*", "gpu": "*"}},
        {"metric": "exact_match", "min": 0.5, "when": {"device": ["cpu", "mps"]}},
        files={"conftest.py": MODEL.format(info=INFO["cpu"])},
        args=["evals", "-rs"],
        model=None,
        outcomes={"passed": 11, "skipped": 1},
        lines=["SKIPPED*when: dtype is float32, not bf[*]; gpu is unknown, not [*]"],
    ),
    case(
        "no gate for this machine",
        {"metric": "exact_match", "min": 0.99, "when": {"device": "cuda"}},
        files={"conftest.py": MODEL.format(info=INFO["cpu"])},
        model=None,
        lines=["*quiz: no gate on this machine*"],
        warns="quiz: no gate on this machine",
    ),
    case(
        "a baseline of another machine is not needed",
        {**VS_MAIN, "max_drop": 0.02, "when": {"device": "cuda"}},
        "exact_match >= 0.5",
        files={"conftest.py": MODEL.format(info=INFO["cpu"])},
        model=None,
        outcomes={"passed": 11, "skipped": 1},
        absent="*it will be invalid*",
    ),
    case(
        "assert_gate can never fail",
        files={"test_a.py": ASSERT.format(gate="quiz/exact_match >= 0", keys="")},
        args=["."],
        ret=1,
        lines=["E*test_a.py:5: exact_match is between 0 and 1*"],
    ),
    case(
        "assert_gate on another machine",
        files={
            "conftest.py": MODEL.format(info=INFO["cpu"]),
            "test_a.py": ASSERT.format(
                gate="quiz/exact_match", keys=", min=1, when={'device': 'cuda'}"
            ),
        },
        args=[".", "-rs"],
        model=None,
        outcomes={"passed": 10, "skipped": 1},
        lines=["SKIPPED*device is cpu, not cuda"],
    ),
    case(
        "in a parent folder",
        files={"gates.yaml": "gates: [quis/exact_match >= 0.5]\n"},
        args=["evals/quiz.yaml"],
        ret=REFUSED,
        lines=["*gates.yaml:1: unknown task 'quis'; did you mean 'quiz'?"],
    ),
    case(
        "of an incomplete file",
        files={
            "evals/cut.yaml": "task: cut\nprompt:\n  - {role: us",
            "evals/gates.yaml": "gates:\n  - cut/exact >= 0.5\n",
        },
        args=["evals/quiz.yaml"],
        ret=REFUSED,
        lines=[
            "*gates.yaml:2: the task 'cut' is not collected: *cut.yaml is not a "
            "complete task file"
        ],
    ),
    case(
        "of evals in other files",
        files={
            "evals/short.yaml": "prompt: '{{q}}'\nrows: [{q: one, target: two}]\n",
            "evals/eval_bot.py": "import pytest_evals as ev\n\n\n"
            "@ev.eval(score=ev.exact())\ndef bot():\n"
            "    yield ev.case('one', target='two')\n",
            "evals/gates.yaml": "gates: [short/exact >= 0.5, bot/exact >= 0.5, "
            "quiz/exact_match >= 0.5]\n",
        },
        args=["evals/quiz.yaml"],
        outcomes={"passed": 11},
    ),
    case(
        "of a task outside its folder",
        files={
            "other/gates.yaml": "gates: [quiz/exact_match >= 0.99]\n",
            "other/own.yaml": "prompt: '{{q}}'\nrows: [{q: one, target: two}]\n",
        },
        args=["other", "evals"],
        ret=REFUSED,
        lines=[
            "*other/gates.yaml:1: a gates file is for tasks in its folder and below, "
            "and 'quiz' is in evals/quiz.yaml"
        ],
    ),
    case(
        "on a tag",
        tasks=BOTH,
        task={"tag": "easy"},
        files={"evals/gates.yaml": "gates: [easy/exact_match >= 0.5]\n"},
        args=["evals/zoo.yaml"],
        ret=REFUSED,
        lines=["*'easy' is a tag*tasks with this tag: quiz"],
    ),
    case(
        "of a task that a module may define",
        files={
            "evals/eval_own.py": "TASKS_TABLE = []\n",
            "evals/gates.yaml": "gates: [unknown/exact_match >= 0.5]\n",
        },
        args=["evals/quiz.yaml"],
        lines=["*unknown task 'unknown'; it may be among *eval_own.py*"],
    ),
    case(
        "an invalid group without the collected task",
        tasks=BOTH,
        group={"task": ["zoo", "nowhere"], "gates": ["exact_match >= 0.5"]},
        args=["evals/quiz.yaml"],
        lines=["*unknown task, group or tag 'nowhere'*"],
    ),
    case(
        "a group that is not collected",
        tasks=BOTH,
        group={"task": [*BOTH], "gates": ["exact_match >= 0.5"]},
        args=["evals/quiz.yaml", "evals/zoo.yaml"],
        outcomes={"passed": 20},
        lines=[
            "*evals/bag.yaml:1: group 'bag' was not collected, so its gates are not "
            "evaluated: exact_match*"
        ],
    ),
    case(
        "a collected group",
        tasks=BOTH,
        group={"task": [*BOTH], "gates": ["exact_match >= 0.5"]},
        outcomes={"passed": 21},
        absent="*was not collected*",
    ),
    case(
        "a group without gates is not read",
        group={"task": ["quiz", "nowhere"]},
        args=["evals/quiz.yaml"],
    ),
    case(
        "gates.yaml is a folder",
        files={"evals/gates.yaml/x": ""},
        ret=INTERRUPTED,
        lines=["evals/gates.yaml: this is a folder, not a file *"],
    ),
    *(
        case(
            f"invalid conditions {when}",
            {"metric": "exact_match", "min": 0.5, "when": when},
            ret=INTERRUPTED,
            lines=[message],
            absent="*passed*",
        )
        for when, message in (
            ({"dtyp": "float16"}, "*no condition 'dtyp'; did you mean 'dtype'?*"),
            ({"gpu": 4090}, "*when.gpu must be a string or a list of strings, not 40*"),
            ({"model": []}, "*when.model must be a string or a list of strings*"),
            ("cuda", "*when must be a mapping of conditions, not 'cuda'*"),
            ({}, "*when must be a mapping of conditions*"),
        )
    ),
    *(
        case(
            f"invalid: {fault}", gate, model="scripted:break", ret=REFUSED, lines=[line]
        )
        for gate, fault, line in (
            (
                "exact_mach >= 0.5",
                "metric",
                "*unknown metric 'exact_mach'*'exact_match'*",
            ),
            ("exact_match,strict >= 0.5", "filter", "*unknown filter 'strict' of*none"),
            ({"must_pass": ["q1", "q77"]}, "document", "*unknown document 'q77'*"),
            (
                {"metric": "exact_match", "min": 0.2, "cluster": "quesion"},
                "cluster",
                "*no field 'quesion' to cluster by; did you mean 'question'?*",
            ),
        )
    ),
    case(
        "an unknown policy",
        args=["evals", "--evals-inconclusive=ignore"],
        ret=REFUSED,
        lines=["*--evals-inconclusive=ignore: expected warn, fail or pass"],
    ),
]


LOST_TASK = """\
dataset_path: json
dataset_kwargs: {data_files: {test: d.jsonl}}
test_split: test
output_type: generate_until
doc_to_text: "{{q}}"
doc_to_target: "{{a}}"
"""
LOST_ROWS = {"d.jsonl": '{"q": "a", "a": "a"}\n{"q": "b", "a": "b"}\n'}
EVAL = """\
prompt: "{{q}}"
rows: [{id: a, q: one, target: one}, {id: b, q: two, target: zwei}]
"""
GATED = EVAL + "gates: [exact >= 0.1]\n"
MODULE = """\
import pytest_evals as ev

@ev.eval(gates=["exact >= 1"])
def bot():
    yield ev.case("one", target="two")
"""


def echo(name: str, files: Mapping[str, str], **keys: Any) -> Any:
    """Files next to the suite, which a model runs that repeats its prompt."""
    keys = {"args": [next(iter(files))], "model": "scripted:echo", **keys}
    return case(name, files={**LOST_ROWS, **files}, **keys)


def half(gate: str, metadata: str = "") -> dict[str, str]:
    """A task whose ``process_results`` returns nothing for one of two documents."""
    return {
        "t.yaml": f"task: t\n{LOST_TASK}process_results: !function u.p\n"
        "metric_list: [{metric: em, aggregation: mean, higher_is_better: true}]\n"
        f"metadata: {{version: 1, gates: [{gate}]{metadata}}}\n",
        "u.py": "def p(doc, results):\n"
        "    return {'em': 1.0} if doc['q'] == 'a' else {}\n",
    }


LOST = [
    echo(
        "a scored document lacks the metric",
        half("em >= 0.5"),
        ret=1,
        lines=[
            "*invalid: 1 of 2 documents has no em, although*",
            "t *1/2*em *1.000 *>= 0.5 *INVALID",
        ],
    ),
    echo(
        "missing allowed in the gate",
        half("{metric: em, min: 0.5, missing: allowed}"),
        lines=["gates: 1 passed"],
    ),
    echo(
        "missing allowed in the task",
        half("em >= 0.5", ", missing: allowed"),
        lines=["gates: 1 passed"],
    ),
    echo(
        "a score hook returns no scores",
        {
            "t.yaml": GATED,
            "conftest.py": "def pytest_evals_score(record, task):\n"
            "    return () if record.doc.id == 'b' else None\n",
        },
        ret=1,
        lines=["gates: 1 invalid"],
    ),
    echo(
        "an exception in one scorer",
        {
            "test_it.py": """
import pytest_evals as ev
@ev.eval(score=[ev.contains()], gates=["contains >= 0.9", "b >= 0.9"])
def iso():
    yield ev.case("x", target="x", id="r")
    yield ev.case("y", target="y", id="s")
@iso.score
def b(answer):
    if answer == "y":
        raise KeyError("score")
    return True
"""
        },
        ret=1,
        lines=[
            "iso *contains *1.000 *passed",
            "*b *INVALID",
            "gates: 1 passed, 1 invalid",
        ],
    ),
    echo(
        "an exception in one metric",
        {
            "t.yaml": f"task: t\n{LOST_TASK}metric_list:\n"
            "  - {metric: exact_match, aggregation: mean, higher_is_better: true}\n"
            "  - {metric: !function u.broken, aggregation: mean, "
            "higher_is_better: true}\ngates: [exact_match >= 0.9]\n",
            "u.py": "def broken(items):\n    return 1 / 0\n",
        },
        ret=1,
        lines=["gates: 1 passed"],
    ),
    *(
        echo(
            f"other metadata {text} than the included file",
            {
                "t.yaml": f"include: base.yaml\ntask: t\nmetadata: {text}\n",
                "base.yaml": f"{LOST_TASK}metadata: "
                "{version: 1, gates: [exact_match >= 0.5]}\n",
            },
            lines=["gates: 1 passed"],
        )
        for text in ("{version: 2}", "3.0", "null")
    ),
    echo(
        "other metadata of a group's member",
        {
            "g.yaml": "group: g\ntask: [{task: u, metadata: {version: 2}}]\n",
            "u.yaml": f"task: u\n{LOST_TASK}metadata: "
            "{version: 1, gates: [exact_match >= 0.5]}\n",
        },
        lines=["gates: 1 passed"],
    ),
    echo(
        "gates that replace those of an included file",
        {
            "t.yaml": "include: base.yaml\ntask: t\ngates: [exact_match >= 0.1]\n",
            "base.yaml": f"{LOST_TASK}gates: [exact_match >= 0.9]\n",
        },
        lines=["*t.yaml:3: gates replaces the gates of *base.yaml:7*"],
    ),
    echo(
        "in the metadata of an eval",
        {"t.yaml": f"{EVAL}metadata: {{gates: [exact >= 0.9]}}\n"},
        ret=1,
    ),
    *(
        echo(
            f"{profile or 'no'} profile with {selection}",
            {"t.yaml": GATED},
            args=["t.yaml", selection, *([profile] if profile else [])],
            ret=int(bool(profile)),
            lines=["evals: 1 of 1 gate was not judged; --evals-pro*"] * bool(profile),
        )
        for selection in ("--deselect=t.yaml::t[b]", "-knot b")
        for profile in ("", "--evals-profile=release")
    ),
    echo(
        "all gates are removed by a conftest",
        {
            "t.yaml": GATED,
            "conftest.py": "def pytest_collection_modifyitems(items):\n"
            "    items[:] = [one for one in items if '::exact' not in one.nodeid]\n",
        },
        ret=1,
        lines=["evals: no gate was judged, of 1"],
    ),
    echo(
        "all gates are skipped with the model",
        {
            "t.yaml": GATED,
            "conftest.py": "import pytest\n@pytest.fixture(scope='session')\n"
            "def eval_model():\n    pytest.skip('no model here')\n",
        },
        ret=1,
        lines=["evals: no gate was judged, of 1"],
    ),
    echo(
        "all tests are skipped by a hook",
        {
            "t.yaml": GATED,
            "conftest.py": "import pytest\ndef pytest_runtest_setup(item):\n"
            "    pytest.skip('no server here')\n",
        },
        ret=1,
        lines=["evals: no gate was judged, of 1"],
    ),
    *(
        echo(
            f"the gate is marked {mark}, {' '.join(args) or 'in one process'}",
            {
                "t.yaml": GATED,
                "conftest.py": "import pytest\n"
                "def pytest_collection_modifyitems(items):\n    for one in items:\n"
                "        if '::exact' in one.nodeid:\n"
                f"            one.add_marker(pytest.mark.{mark})\n",
            },
            args=["t.yaml", "--evals-profile=release", *args],
            ret=ret,
        )
        for mark, args, ret in (
            ("skip(reason='later')", [], 0),
            ("skip(reason='later')", ["-n2"], 0),
            ("skip", [], 1),
            ("skip", ["-n2"], 1),
            ("skipif(True, reason='no GPU')", [], 0),
        )
    ),
    *(
        echo(
            f"a marked eval, {' '.join(args) or 'in one process'}",
            {
                "test_it.py": "import pytest, pytest_evals as ev\n"
                "@pytest.mark.skip(reason='later')\n"
                "@ev.eval(score=[ev.exact()], gates=['exact >= 0.9'])\n"
                "def bot():\n    yield ev.case('x', target='x')\n"
            },
            args=["test_it.py", "--evals-profile=release", *args],
        )
        for args in ([], ["-n2"])
    ),
    echo(
        "expected to fail",
        {
            "test_it.py": "import pytest, pytest_evals as ev\n"
            "@pytest.mark.xfail(reason='known')\n"
            "@ev.eval(score=[ev.exact()], gates=['exact >= 0.9'])\n"
            "def bot():\n    yield ev.case('x', target='y')\n"
        },
        lines=["bot *FAILED (xfail)"],
    ),
    *(
        echo(
            f"a file called {name}",
            {
                "shared/quiz.yaml": EVAL,
                f"shared/{name}": 'gates = ["quiz/exact >= 1"]'
                if name.endswith("toml")
                else "gates: [quiz/exact >= 1]\n",
            },
            args=["shared", "-Wdefault::pytest.PytestCollectionWarning"],
            lines=[f"*{name}:1: looks like a gates file, but only *"],
        )
        for name in (
            *("gates.json", "gates.toml", "gates.yaml.txt", "gates.yaml~"),
            *("gates.yml.bak", "Gates.yaml", "GATES.YML", "gates (1).yaml"),
            *("my_gates.conf", "gate.json"),
        )
    ),
    echo(
        "copies that an editor makes",
        {
            "shared/quiz.yaml": EVAL,
            **{
                f"shared/gates.yaml{end}": "gates: [quiz/exact >= 1]\n"
                for end in ("", "~", ".bak")
            },
        },
        args=["shared", "-Werror"],
        ret=1,
    ),
    *(
        echo(
            f"an eval that its module loses: {what}",
            {
                "test_b.py": text.replace(
                    "def bot():\n    yield", "def bot():\n      yield"
                )
            },
            args=["test_b.py", "-W", "ignore"],
            ret=INTERRUPTED,
            lines=[f"test_b.py:{line}: {what}"],
        )
        for text, line, what in (
            (MODULE * 2, 3, "the eval 'bot' is replaced by the one at test_b.py:8, *"),
            (
                MODULE + "bot = None\n",
                3,
                "no name of the module refers to the eval 'bot'*",
            ),
            (
                MODULE.replace("@", "for n in 1, 2:\n  @").replace("\ndef", "\n  def"),
                4,
                "the eval 'bot' is replaced by the one at test_b.py:4, *",
            ),
            (
                "import pytest_evals as ev\n"
                "bot = ev.eval(lambda: [], gates=['exact >= 1'])\n" * 2,
                2,
                "no name of the module refers to the eval '<lambda>'*",
            ),
            (
                "import pytest_evals as ev\ndef test_it():\n"
                "  @ev.eval(gates=['exact >= 1'])\n  def bot():\n    yield 1\n"
                "  @bot.score\n  def nice(answer):\n    return 1\n",
                4,
                "the eval 'bot' is defined in the function 'test_it' at test_b.py:2, *",
            ),
        )
    ),
    echo(
        "evals that functions return or use",
        {
            "test_b.py": "import pytest_evals as ev\n"
            "def made(n):\n"
            "    @ev.eval(name=f'bot{n}', gates=['exact >= 1'])\n"
            "    def bot():\n"
            "        yield ev.case('one', target='one')\n"
            "    return bot\n"
            "one, two = made(1), made(2)\n"
            "def test_it():\n"
            "    assert made(3).name == 'bot3'\n"
        },
        outcomes={"passed": 5},
    ),
    echo(
        "an eval in a list",
        {
            "test_b.py": "import pytest_evals as ev\n"
            "bots = [ev.eval(lambda: [], name='bot')]\n"
        },
        args=["test_b.py", "-Wdefault"],
        ret=pytest.ExitCode.NO_TESTS_COLLECTED,
        lines=["*test_b.py:2: the eval 'bot' is not a name of its *"],
    ),
]


def built(suite: Any, one: Case) -> None:
    for name in one.tasks:
        path = suite.task(name)
    given = {"gates": [*one.gates]} if one.gates else {}
    path = suite.task(one.tasks[0], **given, **one.task)
    path.write_text(path.read_text() + one.append)
    if one.group:
        suite.group("bag", **one.group)
    suite.knows(wrong=one.wrong, errors=one.errors, tasks=one.tasks)
    for name, text in one.files.items():
        path = suite.pytester.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.mark.parametrize("one", [*CASES, *LOST])
def test_a_suite_with_gates_ends_as_it_should(suite, one):
    built(suite, one)
    if one.before:
        suite.run(*one.before, model=one.model)
    result = suite.run(*one.args, model=one.model)
    assert result.ret == one.ret, result.stdout.str() + result.stderr.str()
    shown = result.stderr if one.ret == REFUSED else result.stdout
    shown.fnmatch_lines([*one.lines])
    if one.absent:
        result.stdout.no_fnmatch_line(one.absent)
    if one.outcomes is not None:
        found = result.parseoutcomes()
        found.pop("warnings", None)
        assert found == one.outcomes
    if one.warns:
        assert one.warns in " ".join(suite.results()["warnings"])
        assert suite.results()["verdict"] == "skipped"


def test_a_metric_that_cannot_be_computed_fails_the_session_and_is_no_baseline(suite):
    task = (
        f"task: t\n{LOST_TASK}metric_list: [{{metric: exact_match, "
        "aggregation: !function u.total, higher_is_better: true}]\n"
    )
    files = {"t.yaml": task, "u.py": "def total(items):\n    return 1 / 0\n"}
    built(suite, Case(files={**LOST_ROWS, **files}))
    result = suite.run("t.yaml", "--evals-save-baseline=main", model="scripted:echo")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["error: t: exact_match,none has no value: *"])
    assert not (suite.pytester.path / ".evals" / "baselines" / "main").exists()


@pytest.mark.slow
def test_a_model_that_ends_the_session_leaves_no_gate_judged(pytester):
    pytester.makefile(".yaml", t=GATED)
    pytester.makeconftest(
        "import pytest\n@pytest.fixture(scope='session')\n"
        "def eval_model():\n    pytest.exit('bye', returncode=0)\n"
    )
    # pytest.exit() needs a process whose start pytest has recorded.
    result = pytester.runpytest_subprocess("--model=scripted:echo", "t.yaml")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["evals: no gate was judged, of 1"])


@pytest.mark.parametrize("target", ["file", "folder", "file in a folder"])
def test_gates_next_to_the_target_of_a_link_are_judged(suite, target):
    gates = "gates.yaml" if target == "folder" else "shared/gates.yaml"
    texts = {"shared/quiz.yaml": EVAL, gates: "gates: [quiz/exact >= 1]\n"}
    built(suite, Case(files=texts))
    links = suite.pytester.mkdir("links")
    if target == "folder":
        (links / "link").symlink_to("../shared")
    elif target == "file":
        (links / "quiz.yaml").symlink_to("../shared/quiz.yaml")
    else:
        (links / "deep").mkdir()
        (links / "deep" / "quiz.yaml").symlink_to("../../shared/quiz.yaml")
    result = suite.run("links", model="scripted:echo")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["FAILED *quiz::exact - exact 0.500 is not >= 1*"])


def test_a_gates_file_that_is_a_broken_symlink_is_refused(suite):
    (suite.evals / "gates.yaml").symlink_to("nowhere.yaml")
    result = suite.run("evals")
    assert result.ret == INTERRUPTED
    result.stdout.fnmatch_lines(["*gates.yaml: this is a link to nowhere.yaml*"])


def test_gates_are_read_from_task_files_metadata_gates_files_and_options(suite):
    metadata = {
        "version": 1,
        "gates": [{"metric": "exact_match", "min": 0.1, "id": "floor"}],
    }
    suite.task("quiz", gates=["exact_match >= 0.5"], metadata=metadata)
    (suite.evals / "gates.yaml").write_text(
        "gates:\n  - {task: quiz, metric: exact_match, min: 0.6, id: second}\n"
    )
    option = "--evals-gate=exact_match >= 0.7"
    result = suite.run("evals", option, "--collect-only", "-q")
    assert [line for line in result.outlines if line.count("::") == 2] == [
        "evals/quiz.yaml::quiz::exact_match",
        "evals/quiz.yaml::quiz::floor",
        "evals/quiz.yaml::quiz::second",
        "evals/quiz.yaml::quiz::exact_match#2",
    ]
    assert suite.run("evals").ret == 0


# How a session is started must not matter: gates are checked before a model is loaded.
WAYS = {
    "file": ["evals/quiz.yaml"],
    "folder": ["evals"],
    "task": ["evals/quiz.yaml::quiz"],
    "document": ["evals/quiz.yaml::quiz[q1]"],
    "selection": ["evals", "--evals-tasks=quiz"],
    "workers": ["evals/quiz.yaml", "-n2"],
    "keyword": ["evals", "-k", "q3"],
    "collect-only": ["evals/quiz.yaml", "--collect-only"],
    "plan": ["evals/quiz.yaml", "--evals-plan"],
}
FAULTY = {
    "exact_match >= 0": "exact_match is between 0 and 1, so >= 0 always holds*",
    "exact_match > 1": "exact_match is between 0 and 1, so > 1 never holds*",
    "exact_match >= 75": "*never holds; did you mean >= 75%?",
    "{metric: exact_match, baseline: main, max_drop: 2}": (
        "*so drop <= 2 always holds; did you mean max_drop: 0.02?"
    ),
    "accuracy >= 0.5": "unknown metric 'accuracy'; the task has exact_match: name one "
    "of these, or add 'accuracy'",
    "exact_mach >= 0.5": "*did you mean 'exact_match'? the task has exact_match",
}


@pytest.fixture(params=WAYS.values(), ids=WAYS)
def way(request):
    return request.param


@pytest.fixture
def both(suite):
    """Two tasks, of which only one is collected when its file is named."""
    suite.task("zoo")
    suite.knows(tasks=BOTH)
    return suite


def gates_file(suite, *entries):
    text = "gates:\n" + "".join(f"  - {entry}\n" for entry in entries)
    (suite.evals / "gates.yaml").write_text(text)


def assert_refused(result, *lines):
    assert result.ret == REFUSED, result.stdout.str()
    result.stderr.fnmatch_lines([*lines])


def test_gates_that_can_never_fail_are_refused_with_their_lines(suite, way):
    path = suite.task("quiz")
    first = len(path.read_text().splitlines()) + 2
    with path.open("a") as file:
        file.write("gates:\n" + "".join(f"  - {gate}\n" for gate in FAULTY))
    result = suite.run(*way, model="scripted:break")
    faults = enumerate(FAULTY.values(), first)
    assert_refused(
        result, *(f"*evals/quiz.yaml:{line}: {fault}" for line, fault in faults)
    )
    assert not (suite.pytester.path / ".evals").exists()


def test_a_gates_file_that_names_an_unknown_task_is_refused(both, way):
    gates_file(both, "zoo/exact_match >= 0.5", "quis/exact_match >= 0.5")
    result = both.run(*way, model="scripted:break")
    assert_refused(
        result, "*evals/gates.yaml:3: unknown task 'quis'; did you mean 'quiz'?"
    )


def test_a_gates_file_may_name_tasks_that_are_not_collected(both, way):
    both.group("bag", task=["zoo"])
    gates_file(
        both, "zoo/exact_match >= 0.5", "{task: bag, metric: exact_match, min: 0.5}"
    )
    assert both.run(*way).ret == 0


def test_faulty_gates_of_a_group_next_to_a_task_are_refused(both, way):
    both.group("bag", task=[*BOTH], gates=["exact_mach >= 0.5", "exact_match >= 75"])
    assert_refused(
        both.run(*way),
        "*evals/bag.yaml:*: unknown metric 'exact_mach' of group 'bag'; did *",
        "*evals/bag.yaml:*: exact_match is between 0 and 1, so >= 75 never*",
    )


def test_a_malformed_gate_of_a_group_next_to_a_task_is_refused(both, way):
    both.group("bag", task=[*BOTH], gates=["exact_match => 0.5"])
    result = both.run(*way)
    if way[0] == "evals" and "--evals-tasks=quiz" not in way:  # an unreadable file
        assert result.ret == INTERRUPTED
        result.stdout.fnmatch_lines(["*unknown operator '=>'; did you mean '>='?*"])
    else:
        assert_refused(
            result, "*evals/bag.yaml:*: *unknown operator '=>'; did you mean '>='?"
        )


def test_a_faulty_gate_of_a_group_above_a_task_is_refused(both):
    sub = both.evals / "sub"
    sub.mkdir()
    for name in ("quiz.yaml", "quiz.jsonl"):
        (both.evals / name).rename(sub / name)
    both.group("bag", task=["quiz"], gates=["exact_mach >= 0.5"])
    assert_refused(both.run("evals/sub"), "*evals/bag.yaml:*: unknown metric*")


def test_a_group_gate_is_checked_against_the_ranges_of_all_tasks(both):
    path = both.task("zoo")
    config = yaml.safe_load(path.read_text())
    path.write_text(yaml.safe_dump(config) + "process_results: !function own.seven\n")
    (both.evals / "own.py").write_text(
        "def seven(doc, results): return {'exact_match': 7}\n"
    )
    both.group("bag", task=[*BOTH], gates=["exact_match >= 3"])
    assert both.run("evals").ret == 0
    both.task("zoo")
    assert_refused(
        both.run("evals"), "*evals/bag.yaml:*: exact_match is between 0 and 1*"
    )


def test_tasks_of_a_package_are_named_by_their_module(both, monkeypatch):
    (both.evals / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(both.pytester.path)
    gates_file(both, "quis/exact_match >= 0.5")
    result = both.run("--pyargs", "evals")
    assert_refused(result, "*gates.yaml:2: unknown task 'quis'; did you mean 'quiz'?")


def test_validation_reports_an_unknown_task_of_a_gate(both):
    gates_file(both, "quis/exact_match >= 0.5")
    for place in ("evals", "evals/quiz.yaml", "evals/quiz.yaml::quiz"):
        result = both.run(place, "--evals-validate")
        assert result.ret == 1
        result.stdout.fnmatch_lines(["*gates.yaml:2: unknown task 'quis'; did you*"])


@pytest.mark.parametrize("source", ["evals", "evals/quiz.yaml"])
def test_evaluate_refuses_gates_of_unknown_tasks_and_without_effect(
    both, source, monkeypatch
):
    monkeypatch.chdir(both.pytester.path)
    gates_file(both, "zoo/exact_match >= 0.5")
    assert evaluate("evals/quiz.yaml", Knowing()).verdicts == ()
    gates_file(both, "quis/exact_match >= 0.5")
    with pytest.raises(OptionError, match=r"gates\.yaml:2: unknown task 'quis'"):
        evaluate(source, Knowing())
    (both.evals / "gates.yaml").unlink()
    both.task("quiz", gates=["exact_match >= 0", "accuracy >= 0.5"])
    with pytest.raises(TaskFileError) as error:
        evaluate(source, Knowing())
    assert "evals/quiz.yaml:13: exact_match is between 0 and 1" in str(error.value)
    assert "evals/quiz.yaml:14: unknown metric 'accuracy'" in str(error.value)


def test_all_errors_of_all_gates_are_reported_at_once(both):
    both.task("quiz", gates=["exact_match >= 0"])
    both.task("zoo", gates=["accuracy >= 0.5"])
    gates_file(both, "quis/exact_match >= 0.5")
    assert_refused(
        both.run("evals", "--evals-gate=exact_match <= 1"),
        "ERROR: evals/quiz.yaml:13: exact_match is between 0 and 1*",
        "--evals-gate: exact_match is between 0 and 1, so <= 1 always holds*",
        "evals/zoo.yaml:13: unknown metric 'accuracy'*",
        "evals/gates.yaml:2: unknown task 'quis'*",
    )


@pytest.mark.slow
def test_a_controller_detects_a_score_hook_in_a_subfolder(suite):
    """It loads no conftest.py there, and collects no tests itself."""
    sub = suite.evals / "sub"
    sub.mkdir()
    (sub / "conftest.py").write_text(SCORE_HOOK)
    suite.task("quiz", gates=["accuracy >= 0.5"])
    for name in ("quiz.yaml", "quiz.jsonl"):
        (suite.evals / name).rename(sub / name)
    result = suite.run("evals", "-n2")
    assert (result.ret, result.parseoutcomes()["passed"]) == (0, 11)


# Gates by their id, and --lf.


@pytest.fixture
def failing(both):
    """A gate that fails and one that passes, and a task without any."""
    both.task("quiz", gates=["exact_match >= 0.95", LOW])
    both.knows(wrong=[2], tasks=BOTH)
    return both


FAILED = "exact_match 0.900 is not >= 0.95 (9 of 10)*"


@pytest.mark.parametrize("workers", ["-n0", "-n2"])
def test_the_id_of_a_failed_gate_runs_its_documents_and_judges_it(failing, workers):
    whole = failing.run("evals", workers)
    (line,) = [one for one in whole.outlines if one.startswith("FAILED ")]
    again = failing.run(line.split()[1], workers)
    assert again.ret == 1
    assert again.parseoutcomes() == {"passed": 9, "wrong": 1, "failed": 1}
    again.stdout.fnmatch_lines([FAILED])


def test_a_gate_selected_by_id_uses_stored_responses(suite):
    """Its documents need no model then: this one cannot be loaded twice."""
    suite.task("quiz", gates=["exact_match >= 0.95"])
    suite.pytester.makeconftest(
        """
        from pathlib import Path
        from pytest_evals import Response

        class Once:
            name, fingerprint = "once", {"version": 1}

            def answer(self, requests):
                assert not Path("requests").exists()
                Path("requests").touch()
                for position, request in enumerate(requests):
                    yield position, Response(text="a0", finish="stop")

        def pytest_evals_open_model(spec):
            return Once() if spec == "once:" else None
        """
    )
    first = suite.run("evals", model="once:")
    again = suite.run("evals/quiz.yaml::quiz::exact_match", model="once:")
    assert first.parseoutcomes() == again.parseoutcomes()
    assert again.ret == 1


@pytest.mark.parametrize("workers", ["-n0", "-n2"])
def test_lf_runs_a_failed_gate_with_documents_that_did_not_fail(failing, workers):
    """pytest itself collects only the failed items of such a file."""
    failing.knows(wrong=[2, 3], errors=[5], tasks=BOTH)
    assert failing.run("evals/quiz.yaml").ret == 1
    failing.knows(wrong=[2], tasks=BOTH)
    again = failing.run("evals/quiz.yaml", "--lf", workers)
    assert again.ret == 1
    again.stdout.fnmatch_lines([FAILED])


@pytest.mark.slow
def test_lf_repeats_a_failed_gate_until_it_is_judged_and_passes(failing):
    assert failing.run("evals").ret == 1
    failing.run("evals", "-k", "q1 or exact_match")  # skips the gate
    again = failing.run("evals", "--lf")
    assert (again.ret, again.parseoutcomes()["failed"]) == (1, 1)
    again.stdout.fnmatch_lines([FAILED])
    failing.knows(tasks=BOTH)
    assert failing.run("evals", "--lf").ret == 0


@pytest.mark.slow
def test_lf_does_not_keep_a_gate_that_does_not_apply(suite):
    there = {"metric": "exact_match", "min": 0.99, "when": {"device": "cuda"}}
    suite.task("quiz", gates=[there, "exact_match >= 0.5"])
    suite.pytester.makeconftest(MODEL.format(info=INFO["cpu"]))
    suite.run("evals", model=None)
    assert not (suite.pytester.path / ".pytest_cache/v/cache/lastfailed").exists()


# Conditions on the model and the machine.


@pytest.mark.parametrize("workers", [(), ("-n", "2")])
def test_results_contain_gates_that_do_not_apply_and_their_conditions(suite, workers):
    there = {"metric": "exact_match", "min": 0.99, "when": {"device": "cuda"}}
    suite.task("quiz", gates=[there, "exact_match >= 0.5"])
    suite.pytester.makeconftest(MODEL.format(info=INFO["cpu"]))
    suite.run("evals", *workers, model=None).assert_outcomes(passed=11, skipped=1)
    first, second = suite.results()["gates"]
    assert (first["outcome"], second["outcome"]) == ("skipped", "passed")
    assert first["when"] == {"device": ["cuda"]}
    assert suite.results()["verdict"] == "passed"


def test_condition_values_are_wildcards_and_all_must_match(suite):
    class Model:
        name = "hf:org/small"
        info = INFO["h100"]

        def answer(self, requests):
            for position, _ in enumerate(requests):
                yield position, Response(text="a1", finish="stop")

    conditions = (
        ({"model": "hf:org/*"}, True),
        ({"model": "hf:other/*"}, False),
        ({"model": ["hf:other/*", "hf:org/small"]}, True),
        ({"device": "cuda"}, True),
        ({"device": "cuda:1"}, True),
        ({"device": "cuda:0"}, False),
        ({"gpu": "*H100*"}, True),
        ({"gpu": ["*A100*", "*H200*"]}, False),
        ({"dtype": "BFLOAT16"}, True),
        ({"dtype": "bfloat16", "gpu": "*A100*"}, False),
    )
    gates = [
        {"metric": "exact_match", "min": 0.5, "id": f"g{i}", "when": when}
        for i, (when, _) in enumerate(conditions)
    ]
    path = suite.task("quiz", gates=gates)
    verdicts = evaluate(path, Model()).verdicts
    assert [verdict.outcome for verdict in verdicts] == [
        "failed" if is_judged else "skipped" for _, is_judged in conditions
    ]


def test_judge_without_a_run_refuses_conditions():
    with pytest.raises(OptionError, match="remove when from"):
        judge_gate({"metric": "acc", "min": 0.5, "when": {"device": "cpu"}}, [1, 0, 1])


# Inconclusive gates.


@pytest.mark.slow
@pytest.mark.parametrize(
    ("policy", "ret", "outcomes", "workers"),
    [
        ("warn", 0, {"passed": 8, "wrong": 2, "inconclusive": 1}, []),
        ("fail", 1, {"passed": 8, "wrong": 2, "failed": 1}, []),
        ("pass", 0, {"passed": 9, "wrong": 2}, []),
        ("warn", 0, {"passed": 8, "wrong": 2, "inconclusive": 1}, ["-n2"]),
    ],
)
def test_the_policy_decides_the_outcome_of_inconclusive_gates(
    suite, policy, ret, outcomes, workers
):
    suite.task("quiz", gates=[OPEN])
    suite.knows(wrong=[1, 2])
    option = f"--evals-inconclusive={policy}"
    done = suite.run("evals", option, "--junitxml=junit.xml", *workers)
    assert done.ret == ret
    assert done.parseoutcomes() == outcomes
    done.stdout.fnmatch_lines(["*not enough documents to tell: *0.800, 90% CI*"])
    (gate,) = suite.results()["gates"]
    assert (gate["outcome"], gate["over"]) == ("inconclusive", "population")
    assert gate["interval"]["low"] < 0.7 < gate["interval"]["high"]
    assert gate["interval"]["policy"] == policy
    tree = ET.parse(suite.pytester.path / "junit.xml")
    (found,) = [c for c in tree.iter("testcase") if c.get("name") == "exact_match"]
    properties = {p.get("name"): p.get("value") for p in found.iter("property")}
    assert properties["verdict"] == "inconclusive"
    assert (found.find("failure") is not None) == bool(ret)


@pytest.mark.skipif(pytest.version_tuple < (9, 1), reason="--max-warnings is newer")
@pytest.mark.parametrize("workers", [(), ("-n2",)])
def test_an_inconclusive_gate_counts_as_a_pytest_warning(suite, workers):
    suite.task("quiz", gates=[OPEN])
    suite.knows(wrong=[1, 2])
    done = suite.run("evals", "--max-warnings=0", "-Werror", *workers)
    assert done.ret == 6  # pytest's MAX_WARNINGS_ERROR
    assert done.parseoutcomes()["warnings"] == 1
    done.stdout.fnmatch_lines(
        [
            "evals/quiz.yaml::quiz::exact_match",
            "*evals/quiz.yaml:*: PytestWarning: quiz: *: inconclusive: not enough *",
            "*maximum allowed warnings exceeded: 1 > 0",
        ]
    )
    assert suite.run("evals", "--max-warnings=1", *workers).ret == 0
    policy = "--evals-inconclusive=pass"
    assert suite.run("evals", "--max-warnings=0", policy, *workers).ret == 0


# Comparisons with a baseline.


def newest(suite):
    runs = suite.pytester.path.glob(".evals/runs/*")
    path = max(runs, key=lambda path: path.stat().st_mtime_ns)
    return json.loads((path / "results.json").read_text())


@pytest.fixture
def saved(suite):
    """Two baseline gates and their baseline, in which q1 to q3 are wrong; saving it
    judges no gate that needs it."""
    point = {**VS_MAIN, "max_drop": 0.1, "over": "run"}
    suite.task("quiz", gates=[point, {**VS_MAIN, "max_drop": "5%", "id": "sure"}])
    suite.knows(wrong=[1, 2, 3])
    result = suite.run("evals", "--evals-save-baseline=main")
    assert result.ret == 0
    assert result.parseoutcomes() == {"passed": 7, "wrong": 3, "skipped": 2}
    result.stdout.fnmatch_lines(["*skipped: this run is the first baseline"])
    return suite


@pytest.mark.slow
@pytest.mark.parametrize("workers", [(), ("-n2",)], ids=["plain", "n2"])
def test_a_change_is_judged_over_the_same_documents(saved, workers):
    path = saved.evals / "quiz.jsonl"
    path.write_text("".join(reversed(path.read_text().splitlines(keepends=True))))
    saved.knows(wrong=[1, 2, 3, 4, 5])
    result = saved.run("evals", "--junitxml=j.xml", *workers)
    assert result.ret == 1
    found = {gate["id"]: gate for gate in newest(saved)["gates"]}
    point, sure = found["exact_match-vs-main"], found["sure"]
    assert (point["outcome"], sure["outcome"]) == ("failed", "inconclusive")
    change = point["change"]
    assert (change["n"], change["gained"], change["lost"]) == (10, 0, 2)
    assert (change["before"], change["now"]) == (0.7, 0.5)
    assert sorted(point["documents"]) == ["q4", "q5"]
    assert sure["change"]["bar"] == pytest.approx(-0.05 * 0.7)
    assert 0 < sure["p_value"] < 1
    result.stdout.fnmatch_lines(
        [
            "*exact_match 0.500 vs main 0.700: -20.00 is not >= -10.00 points (10 "
            "documents, 0 gained / 2 lost)*",
            "*worse than in main*",
        ]
    )
    xml = (saved.pytester.path / "j.xml").read_text()
    assert '<property name="lost" value="2" />' in xml
    assert '<property name="p_adjusted"' in xml


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"doc_to_text": "Q: {{question}}"}, "the prompt has changed: 10 documents"),
        (
            {"generation_kwargs": {"until": ["#"]}},
            "generation_kwargs is {'until': *} instead of",
        ),
    ],
)
def test_runs_with_other_prompts_are_refused_with_the_difference(
    saved, change, message
):
    saved.task("quiz", gates=[{**VS_MAIN, "max_drop": 0.1}], **change)
    result = saved.run("evals")
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        [f"invalid: baseline 'main' is not comparable: {message}*"]
    )
    assert saved.run("evals", "--evals-save-baseline=main").ret == 0
    assert saved.run("evals").ret == 0


@pytest.mark.slow
def test_documents_of_a_passage_form_a_cluster(suite):
    """The cluster comes from the rows, even if workers have them."""
    gate = {"metric": "exact_match", "min": 0.2, "cluster": "passage"}
    suite.task("quiz", gates=[gate])
    rows = [
        {"id": f"q{i}", "question": f"quiz {i}?", "answer": f"a{i}", "passage": i // 2}
        for i in range(10)
    ]
    (suite.evals / "quiz.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    suite.knows(wrong=[0, 1])
    assert suite.run("evals", "-n2").ret == 0
    (found,) = newest(suite)["gates"]
    method = "clustered Gaffke, design effect 2.25 over 5 clusters"
    assert found["interval"]["method"] == method


@pytest.mark.parametrize(("now", "is_reported"), [("cpu", False), ("cuda:0", True)])
def test_a_baseline_of_another_machine_is_noted(suite, now, is_reported):
    suite.task("quiz", gates=[{**VS_MAIN, "max_drop": 0.1}])
    suite.pytester.makeconftest(MODEL.format(info={"device": "cpu"}))
    assert suite.run("evals", "--evals-save-baseline=main", model=None).ret == 0
    suite.pytester.makeconftest(MODEL.format(info={"device": now}))
    shown = suite.run("evals", model=None).stdout.str()
    assert ("device: 'cuda:0' (baseline: 'cpu')" in shown) == is_reported
    assert is_reported or "device is" not in shown


@pytest.mark.parametrize("workers", [(), ("-n2",)], ids=["plain", "n2"])
def test_a_sample_with_a_complete_baseline_is_judged_for_the_whole_benchmark(
    suite, workers
):
    """Nothing changes, so the number of all documents is the baseline's, 7 of 10,
    whichever 5 are drawn. The other 5 may have changed."""
    floor = {"metric": "exact_match", "min": 0.65, "id": "floor"}
    suite.task("quiz", gates=[floor, {**VS_MAIN, "max_drop": 0.9, "over": "run"}])
    suite.knows(wrong=[1, 2, 3])
    assert suite.run("evals", "--evals-save-baseline=main").ret == 0
    sampled = suite.run("evals", "--evals-sample=5", *workers)
    sampled.stdout.fnmatch_lines(["*5 documents asked, 5 from the knowledge of main*"])
    found = {gate["id"]: gate for gate in newest(suite)["gates"]}
    assert found["floor"]["value"] == pytest.approx(0.7)
    assert found["floor"]["outcome"] == "inconclusive"
    assert found["exact_match-vs-main"]["outcome"] == "passed"


# Gates on kl of generated answers.

P, Q = {"a": 0.8, "b": 0.2}, {"a": 0.7, "b": 0.3}
KL = 0.8 * math.log(0.8 / 0.7) + 0.2 * math.log(0.2 / 0.3)


def answers(suite, p, *, tops=True, tasks=("quiz",)):
    """Answers of one token with these probabilities."""
    top = [["a", {name: math.log(value) for name, value in p.items()}]]
    more = {"top_logprobs": top} if tops else {}
    rules = [
        {"prompt": f"{task} {i}?", "text": f"a{i}", **more}
        for task in tasks
        for i in range(10)
    ]
    text = "".join(json.dumps(rule) + "\n" for rule in rules)
    (suite.pytester.path / "answers.jsonl").write_text(text)


@pytest.fixture
def divergence(suite):
    gate = {"metric": "kl", "baseline": "main", "max": 0.5}
    suite.task("quiz", gates=[gate], generation_kwargs={"max_gen_toks": 8})
    answers(suite, P)
    return suite


@pytest.mark.slow
@pytest.mark.parametrize("workers", [(), ("-n2",)], ids=["plain", "n2"])
def test_a_run_is_compared_with_the_stored_distributions(divergence, workers):
    divergence.task("other")
    answers(divergence, P, tasks=("quiz", "other"))
    assert divergence.run("evals", "--evals-save-baseline=main").ret == 0
    for task, has in (("quiz", True), ("other", False)):
        row = divergence.samples(task)[0]
        arguments = row["arguments"]["gen_args_0"]["arg_1"]
        assert ("top_logprobs" in row, "top_logprobs" in arguments) == (has, has)
    answers(divergence, Q, tasks=("quiz", "other"))
    result = divergence.run("evals", *workers)
    assert result.ret == 0
    (gate,) = newest(divergence)["gates"]
    assert gate["value"] == pytest.approx(KL, abs=1e-5)
    assert gate["notes"][0].startswith("a lower bound of kl")
    result.stdout.fnmatch_lines(["*a lower bound of kl*"])


@pytest.mark.parametrize(
    ("before", "now", "message"),
    [
        (False, True, "*'main' has no top log-probabilities of generated tokens*"),
        (True, False, "*the model returns no top log-probabilities*"),
    ],
)
def test_missing_distributions_are_reported_with_the_fix(
    divergence, before, now, message
):
    answers(divergence, P, tops=before)
    divergence.run("evals", "--evals-save-baseline=main")
    answers(divergence, P, tops=now)
    result = divergence.run("evals")
    assert result.ret == 1
    result.stdout.fnmatch_lines([message])


@pytest.mark.slow
def test_stored_responses_keep_distributions(divergence, tiny_model_path):
    """The second run opens no model."""
    model = f"hf:{tiny_model_path},device=cpu"
    for _ in range(2):
        assert (
            divergence.run("evals", "--evals-save-baseline=main", model=model).ret == 0
        )
    path = divergence.pytester.path / ".evals/responses.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("SELECT response FROM responses").fetchall()
    stored = [json.loads(row) for (row,) in rows]
    assert len(stored) == 10 and all(one["top_logprobs"] for one in stored)
    assert divergence.run("evals", model=model).ret == 0
    (gate,) = newest(divergence)["gates"]
    assert gate["value"] == 0


def test_failed_gates_of_all_scorers_show_prompt_answer_and_reason(pytester):
    pytester.makefile(
        ".yaml",
        replies='prompt: "{{q}}"\nrows:\n'
        + "".join(f"  - {{q: question {n}, target: question {n}}}\n" for n in range(9))
        + "score: [exact, {contains: refund}, {similar: {threshold: 0.5}}]\n"
        "gates: [contains >= 0.9]\n",
    )
    result = pytester.runpytest("--model=scripted:echo")
    result.stdout.fnmatch_lines(
        [
            "*replies: contains >= 0.9*",
            "  wrong (3 of 9)",
            "    replies[[]0[]]",
            "      prompt  question 0",
            "      answer  question 0",
            "      target  question 0",
            "      reason  does not contain 'refund'",
            "    replies[[]1[]]",
            "      prompt  question 1",
        ]
    )
