"""Reports of documents from workers: compact, or pytest's own serialization."""

import pytest

from pytest_evals.plugin.execution.fast_path.report_batches import (
    CompactReports,
    batch_event,
    packed_report,
)


def report(**changes):
    fields = {
        "nodeid": "evals/quiz.yaml::quiz[q0]",
        "location": ("evals/quiz.yaml", None, "quiz[q0]"),
        "keywords": {"quiz": 1, "evals": 1},
        "outcome": "passed",
        "longrepr": None,
        "when": "call",
        "duration": 0.5,
        "start": 1.0,
        "stop": 2.0,
        "evals_is_document": True,
        "evals_word": "wrong",
        "evals_record": b"\x00record",
    }
    return pytest.TestReport(**{**fields, **changes})


def test_a_compact_report_is_restored_with_xdists_attributes():
    light, sent = CompactReports(), report()
    data = light.pytest_report_to_serializable(sent)
    assert len(data) == 2
    added = {"item_index": 3, "worker_id": "gw1", "testrun_uid": "abc"}
    arrived = light.pytest_report_from_serializable({**data, **added})
    assert {**vars(sent), **added} == vars(arrived)
    assert arrived.nodeid == sent.nodeid


@pytest.mark.parametrize(
    "changes",
    [
        {"longrepr": "it failed"},
        {"sections": [("Captured stdout call", "text")]},
        {"user_properties": [("score", 1.0)]},
        {"another_plugins": "own"},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_other_reports_are_serialized_by_pytest(changes):
    assert CompactReports().pytest_report_to_serializable(report(**changes)) is None


def test_reports_of_other_tests_are_unchanged():
    plain = report()
    del vars(plain)["evals_record"]
    assert CompactReports().pytest_report_to_serializable(plain) is None
    data = {"$report_type": "TestReport", "nodeid": "x"}
    assert CompactReports().pytest_report_from_serializable(data) is None


def test_batched_reports_are_restored_in_order_with_xdists_attributes():
    light, sent = CompactReports(), [report(start=float(i)) for i in range(3)]
    data = batch_event([(7 + i, packed_report(one)) for i, one in enumerate(sent)])
    assert len(data) == 2
    added = {"worker_id": "gw1", "testrun_uid": "abc"}
    last = light.pytest_report_from_serializable({**data, **added})
    arrived = [*vars(last).pop("evals_earlier"), last]
    assert [vars(one) for one in arrived] == [
        {**vars(one), **added, "item_index": 7 + i} for i, one in enumerate(sent)
    ]
