"""Comparison of expected and actual function calls. OBS and CORE were measured on
LatticeFlow's own code (3.17.0), DOC is from its documentation; the rest is our own
decision."""

import json

import pytest

from pytest_evals.errors import DocumentError

TRACES = {
    # name: (expected calls, calls made)
    "t1": (["lookup", "book"], [("lookup", {"city": "Bern"}), ("book", {"room": 4})]),
    "t2": (["lookup", "book"], [("book", {"room": 4}), ("lookup", {"city": "Bern"})]),
    "t3": (["lookup", "lookup"], [("lookup", {}), ("weather", {})]),
    "t4": ([], []),
    "t5": ([{"name": "book", "arguments": {"room": 4}}], [("book", {"room": 5})]),
}


@pytest.mark.parametrize(
    ("name", "complete", "coverage", "made", "unrequired"),
    [
        ("t1", (True, True), 1, 2, 0),
        ("t2", (True, False), 1, 2, 0),
        ("t3", (False, False), 0.5, 1, 1),
        ("t4", (True, True), 1, 0, 0),
        ("t5", (False, False), 0, 0, 1),
    ],
)
def test_calls_of_functions_are_covered(
    scored, name, complete, coverage, made, unrequired
):
    """CORE: values of the algorithm computed by hand, equal to those of LatticeFlow's
    code."""
    expected, calls = TRACES[name]
    trace = [{"role": "user", "content": "a"}] + [
        {"type": "function_call", "name": n, "arguments": json.dumps(arguments)}
        for n, arguments in calls
    ]
    modes = zip(("any_order", "in_order"), complete, strict=True)
    for mode, is_complete in modes:
        for form in ("sample.calls | tojson", "sample.calls"):
            yaml = (
                f"- {{type: function_call_coverage, mode: {mode}, "
                f'function_calls: "{{{{ {form} }}}}"}}'
            )
            score = scored(yaml, {"calls": expected}, trace=trace)
            assert score.values == {
                "all_required_calls_made": is_complete,
                "required_calls_coverage": coverage,
                "num_required_calls_made": made,
                "num_required_calls_not_made": len(expected) - made,
                "num_unrequired_calls": unrequired,
                "num_required_calls_total": len(expected),
            }


def test_calls_with_arguments_are_matched_first(scored):
    """CORE: otherwise the call without arguments would match the only fitting call."""
    calls = ["f", {"name": "f", "arguments": {"a": 1}}]
    trace = [
        {"role": "user", "content": "a"},
        {"type": "function_call", "name": "f", "arguments": '{"a": 1}'},
        {"type": "function_call", "name": "f", "arguments": "no JSON"},
    ]
    yaml = "- {type: function_call_coverage, function_calls: '{{ sample.c | tojson }}'}"
    score = scored(yaml, {"c": calls}, trace=trace)
    assert score.values["num_required_calls_made"] == 2
    with pytest.raises(DocumentError, match="must be a list, not 3"):
        scored(yaml, {"c": 3}, trace=trace)
