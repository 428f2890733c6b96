"""Memory of documents in large suites."""

from __future__ import annotations

import json
import tracemalloc

import pytest

from pytest_evals.core.doc import Doc
from pytest_evals.core.record import Record, Score, slim
from pytest_evals.core.request import Generate, Response

pytestmark = pytest.mark.slow


N = 2000
TASK = """\
task: many
dataset_path: json
dataset_kwargs: {data_files: {test: many.jsonl}}
test_split: test
output_type: generate_until
doc_to_text: "{{question}}"
doc_to_target: "{{answer}}"
metric_list: [{metric: exact_match}]
tag: [long]
"""
MEASURE = """
import gc, tracemalloc

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_collectstart(collector):
    if type(collector).__name__ == "TaskFile":
        tracemalloc.start()
        collector.config.before = tracemalloc.get_traced_memory()[0]


@pytest.hookimpl(trylast=True)
def pytest_collection_finish(session):
    gc.collect()
    used = tracemalloc.get_traced_memory()[0] - session.config.before
    tracemalloc.stop()
    print(f"collected: {used} bytes")
"""


@pytest.fixture
def suite(pytester: pytest.Pytester) -> pytest.Pytester:
    rows = [{"question": f"How much is {i}?", "answer": str(i)} for i in range(N)]
    text = "".join(f"{json.dumps(row)}\n" for row in rows)
    pytester.path.joinpath("many.jsonl").write_text(text)
    pytester.path.joinpath("many.yaml").write_text(TASK)
    return pytester


def test_collected_document_needs_less_memory_than_a_bare_pytest_item(suite):
    """An attribute that takes 1,000 bytes in pytest 9.2."""
    suite.makeconftest(MEASURE)
    used = []
    for n in (500, N):
        limit = f"--evals-limit={n}"
        result = suite.runpytest_subprocess("--co", "-qq", limit, "many.yaml")
        (line,) = [one for one in result.outlines if one.startswith("collected: ")]
        used.append(int(line.split()[1]))
    assert (used[1] - used[0]) / (N - 500) < 800


def test_kept_record_of_a_common_outcome_needs_less_than_200_bytes():
    score = Score(metric="acc", value=1.0, correct=True, answer="yes")
    response = Response(text="yes", n_tokens=1, n_prompt_tokens=5)
    ids = [str(i) for i in range(1000)]
    slim(_record(0, ids[0], score, response))
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    records = [slim(_record(i, ids[i], score, response)) for i in range(1000)]
    used = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert used / 1000 < 200
    assert [record.doc.id for record in records] == ids
    assert records[7].scores[0].value == 1.0
    assert records[7].responses[0].n_prompt_tokens == 5


def _record(index: int, id_: str, score: Score, response: Response) -> Record:
    return Record(
        task="many",
        index=index,
        doc=Doc("How much?", ["yes"], 0, id=id_),
        requests=(Generate("How much?"),),
        responses=(response,),
        scores=(score,),
    )


READERS = """
import pytest


def pytest_collection_modifyitems(items):
    for item in items:
        if item.name == "many[3]":
            item.add_marker("slow")
            item.user_properties.append(("owner", "somebody"))
        if item.name == "many[4]":
            item.extra_keyword_matches.add("special")


def pytest_terminal_summary(terminalreporter):
    for report in terminalreporter.stats["wrong"]:
        if report.location[2] in ("many[3]", "many[5]"):
            print()
            print(report.nodeid, report.when, report.outcome, report.location)
            print(sorted(report.keywords), report.user_properties, report.sections)
            print(report.longrepr, report.duration > 0, report.passed, report.fspath)
            assert not hasattr(report, "wasxfail")
"""


@pytest.mark.parametrize("verbose", [(), ("-v",)], ids=["", "-v"])
def test_other_plugins_find_all_fields_of_items_and_kept_reports(suite, verbose):
    suite.makeconftest(READERS)
    suite.path.joinpath("answers.jsonl").write_text('{"text": "nothing"}\n')
    lines = suite.runpytest(
        "many.yaml", "--model=scripted:answers.jsonl", "--evals-limit=8", *verbose
    ).outlines
    for number, properties in ((3, "[('owner', 'somebody')]"), (5, "[]")):
        at = f"many.yaml::many[{number}] call passed "
        place = lines.index(f"{at}('many.jsonl', {number}, 'many[{number}]')")
        keywords, others = lines[place + 1 : place + 3]
        assert f"'many[{number}]'" in keywords
        assert "'many.yaml'" in keywords
        assert ("'slow'" in keywords) == (number == 3)
        assert keywords.endswith(f"] {properties} []")
        assert others == "None True True many.yaml"


@pytest.mark.parametrize(
    ("selection", "n"),
    [(("-m", "long"), 8), (("-m", "slow"), 1), (("-k", "special"), 1)],
)
def test_markers_and_keywords_of_documents_select_them(suite, selection, n):
    suite.makeconftest(READERS)
    suite.makeini("[pytest]\nmarkers = slow")
    result = suite.runpytest(
        "many.yaml", "--collect-only", "-q", "--evals-limit=8", *selection
    )
    assert sum("many[" in line for line in result.outlines) == n
