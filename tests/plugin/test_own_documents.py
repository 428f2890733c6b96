"""Workers of pytest-xdist create the documents of their shard only."""

from __future__ import annotations

import json
from importlib.util import find_spec

import pytest

pytestmark = pytest.mark.slow


TASK = """\
task: NAME
dataset_path: json
dataset_kwargs: {data_files: {test: rows.jsonl}}
test_split: test
output_type: generate_until
doc_to_text: "{{question}}"
doc_to_target: "{{answer}}"
metric_list: [{metric: exact_match}]
gates: [exact_match <= 0.9]
"""
COUNT = """
import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session):
    workerinput = getattr(session.config, "workerinput", None)
    if workerinput:
        worker = workerinput["workerid"]
        names = [item.name for item in session.items if isinstance(item, pytest.Item)]
        (session.config.rootpath / f"{worker}.items").write_text("\\n".join(names))
"""
HOOKS = {
    "pytest_itemcollected": "def pytest_itemcollected(item):\n    pass\n",
    "pytest_collection_modifyitems": (
        "def pytest_collection_modifyitems(items):\n"
        "    items[:] = [item for item in items if 'many[1' not in item.name]\n"
    ),
}


@pytest.fixture
def suite(pytester: pytest.Pytester) -> pytest.Pytester:
    rows = [{"question": "Why? " * (i % 7), "answer": "yes"} for i in range(40)]
    text = "".join(f"{json.dumps(row)}\n" for row in rows)
    pytester.path.joinpath("rows.jsonl").write_text(text)
    for name in ("few", "many"):
        path = pytester.path.joinpath(f"{name}.yaml")
        path.write_text(TASK.replace("NAME", name))
    pytester.makepyfile(test_plain="def test_plain():\n    pass\n")
    pytester.path.joinpath("answers.jsonl").write_text('{"text": "no"}\n')
    pytester.makeconftest(COUNT)
    return pytester


def _run(suite: pytest.Pytester, *options: str) -> pytest.RunResult:
    return suite.runpytest_subprocess("--model=scripted:answers.jsonl", *options)


def _documents(suite: pytest.Pytester) -> dict[str, list[str]]:
    """Worker → names of the documents that it created."""
    files = suite.path.glob("*.items")
    named = {file.stem: file.read_text().splitlines() for file in files}
    return {worker: [n for n in names if "[" in n] for worker, names in named.items()}


def test_each_document_is_created_by_one_worker(suite):
    _run(suite, "-n3").assert_outcomes(passed=3)
    created = _documents(suite)
    assert len(created) == 3
    names = [name for of_worker in created.values() for name in of_worker]
    expected = [f"{task}[{i}]" for task in ("few", "many") for i in range(40)]
    assert sorted(names) == sorted(expected)
    assert all(20 < len(of_worker) < 35 for of_worker in created.values())


def test_results_are_those_of_one_process(suite):
    (alone,), (shared,) = (
        [x for x in _run(suite, *options).outlines if x.startswith("many ")]
        for options in ((), ("-n3",))
    )
    assert alone == shared
    runs = sorted(suite.path.glob(".evals/runs/*/samples_many.jsonl"))
    first, second = (
        [json.loads(line)["doc_hash"] for line in run.read_text().splitlines()]
        for run in runs
    )
    assert first == second


READS_ITEMS = """
def pytest_collection_finish(session):
    seen = [item.get_closest_marker("evals") for item in session.items]
    assert sum(marker is not None for marker in seen) == 82


@pytest.fixture(autouse=True)
def look(request):
    assert {item.config for item in request.session.items} == {request.config}
"""


def test_plugins_and_fixtures_may_read_all_items(suite):
    suite.makeconftest(COUNT + READS_ITEMS)
    result = _run(suite, "-n2")
    assert "80 wrong" in result.outlines[-1]
    result.assert_outcomes(passed=3)
    created = _documents(suite).values()
    assert sorted(map(len, created)) == [40, 40]


def test_plugins_that_do_not_change_documents_let_workers_create_their_own(suite):
    # Not imported here: Hypothesis's plugin must not be imported after Hypothesis.
    for name in ("anyio", "_hypothesis_pytestplugin"):
        if not find_spec(name):
            pytest.skip(f"{name} is not installed")
    result = _run(suite, "-n2", "-panyio.pytest_plugin", "-p_hypothesis_pytestplugin")
    result.assert_outcomes(passed=3)
    assert sorted(map(len, _documents(suite).values())) == [40, 40]


@pytest.mark.parametrize(
    "hook",
    [
        pytest.param("pytest_itemcollected", marks=pytest.mark.slow),
        "pytest_collection_modifyitems",
    ],
)
def test_all_documents_are_created_for_a_plugin_that_gets_items(suite, hook):
    suite.makeconftest(COUNT + HOOKS[hook])
    result = _run(suite, "-n2")
    n = 29 if hook == "pytest_collection_modifyitems" else 40
    assert f" {40 + n} wrong" in result.outlines[-1]
    if n == 40:
        result.assert_outcomes(passed=3)
    assert all(len(names) == 40 + n for names in _documents(suite).values())


@pytest.mark.parametrize(
    ("options", "n"),
    [
        (("-k", "few"), 40),
        pytest.param(("many.yaml::many[3]",), 1, marks=pytest.mark.slow),
        pytest.param(("--deselect", "few.yaml"), 40, marks=pytest.mark.slow),
    ],
)
def test_selected_documents_run_once(suite, options, n):
    result = _run(suite, "-n2", *options)
    assert f" {n} wrong" in result.outlines[-1]


@pytest.mark.slow
def test_documents_of_a_crashed_worker_run_on_its_replacement(suite):
    suite.makeconftest(
        COUNT
        + """
import os

from pytest_evals import Response


class Model:
    name = "dies once"

    def answer(self, requests):
        for i, _ in enumerate(requests):
            if i == 5 and os.environ["PYTEST_XDIST_WORKER"] == "gw1":
                os._exit(1)
            yield i, Response(text="no")


@pytest.fixture(scope="session")
def eval_model():
    return Model()
"""
    )
    result = suite.runpytest_subprocess("-n2")
    assert "80 wrong" in result.outlines[-1]
    assert len(_documents(suite)) == 2
