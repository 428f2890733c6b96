"""Prompts side by side: ``variants`` of an eval."""

from __future__ import annotations

import json

import pytest

from pytest_evals import evaluate

APP = """
def adds(prompt):
    text = prompt if isinstance(prompt, str) else prompt[-1]["content"]
    return str(sum(map(int, text.split("+")[:2])))

adds.version = "1"
"""
EVAL = """
variants:
  short: "{{q}}"
  long:
    - {role: user, content: "0+{{q}}"}
target: a
rows:
  - {id: a, q: 1+1, a: 2}
  - {id: b, q: 2+2, a: 4}
  - {id: c, q: 0+0, a: 0}
gates:
  - exact >= 0.5
  - {metric: exact, min: 0.1, variant: long, id: only-long}
"""
ADDS = "--model=python:apps:adds"


@pytest.fixture
def sums(pytester):
    """All answers to the variant ``short`` are correct, one of three to ``long``."""
    pytester.makeini("[pytest]\n")
    pytester.makepyfile(apps=APP)
    pytester.syspathinsert()
    (pytester.path / "sums.yaml").write_text(EVAL)
    return pytester


def test_variants_are_parameters_of_documents_and_gates(sums):
    shown = sums.runpytest("--collect-only", "-q", ADDS)
    assert [line for line in shown.outlines if "::" in line] == [
        *(f"sums.yaml::sums[short-{id_}]" for id_ in "abc"),
        *(f"sums.yaml::sums[long-{id_}]" for id_ in "abc"),
        *(f"sums.yaml::sums::{gate}[short]" for gate in ("exact", "only-long")),
        *(f"sums.yaml::sums::{gate}[long]" for gate in ("exact", "only-long")),
    ]
    shown = sums.runpytest("--collect-only", "-q", f"{ADDS}", "--model=x=scripted:echo")
    assert "sums.yaml::sums[x-long-a]" in shown.outlines
    assert "sums.yaml::sums::exact[x-long]" in shown.outlines


@pytest.mark.parametrize(
    "workers", [(), pytest.param(("-n", "2"), marks=pytest.mark.slow)]
)
def test_gates_are_judged_for_each_variant_and_a_table_compares_them(sums, workers):
    result = sums.runpytest(ADDS, "-rs", "--evals-html=report.html", *workers)
    result.assert_outcomes(passed=4 + 2, failed=1, skipped=1)
    result.stdout.fnmatch_lines(
        [
            "*pytest 'sums.yaml::sums?long-a?' -v" if not workers else "*",
            "*= evals: variants =*",
            "sums  exact   short * 1.000 *",
            "              long * 0.333  -0.667 *",
            "documents: 1 all correct, 0 all wrong, 2 they disagree",
            "report: report-variants.html",
            "SKIPPED*when: variant is short, not long*",
        ]
    )
    assert (sums.path / "report-variants.html").is_file()
    results = json.loads(next(sums.path.glob(".evals/runs/*/results.json")).read_text())
    assert results["results"]["sums[short]"]["exact,none"] == 1
    assert results["results"]["sums[long]"]["exact,none"] == pytest.approx(1 / 3)


@pytest.mark.slow
def test_options_select_documents_of_a_variant(sums):
    sums.runpytest(ADDS)
    result = sums.runpytest(ADDS, "--evals-only=wrong", "-q")
    result.stdout.fnmatch_lines(["evals: 2 of 6 documents: wrong in *"])
    result = sums.runpytest(ADDS, "--lf", "-v")
    result.stdout.fnmatch_lines(["*sums?long-a?*", "*::exact?long? FAILED*"])
    result.stdout.no_fnmatch_line("*sums?short-a?*")
    result = sums.runpytest(ADDS, "-k", "short", "--evals-tasks=sums", "-q")
    result.assert_outcomes(passed=4, skipped=1, deselected=5)


@pytest.mark.slow
def test_merged_parts_of_variants_equal_one_run(sums):
    off = "--evals-cache=off"
    one = sums.runpytest(ADDS, off, "--evals-run-dir=one")
    for part in (1, 2, 3):
        place = f"--evals-run-dir=parts/{part}"
        assert sums.runpytest(ADDS, off, f"--evals-shard={part}/3", place).ret == 0
    given = [f"--evals-merge=parts/{part}" for part in (1, 2, 3)]
    merged = sums.runpytest(ADDS, off, *given, "--evals-run-dir=merged")
    assert merged.parseoutcomes() == one.parseoutcomes()
    both = [
        json.loads((sums.path / name / "results.json").read_text())
        for name in ("one", "merged")
    ]
    assert both[0]["results"] == both[1]["results"]
    assert both[0]["gates"] == both[1]["gates"]


def test_evaluate_compares_variants(sums):
    result = evaluate("sums.yaml", "python:apps:adds")
    (found,) = result.variants
    assert found.models == ("short", "long")
    assert found.agreements["they disagree"] == 2
    frame = result.to_pandas("matrix")
    assert list(frame.columns) == ["task", "id", *found.models, "agreement"]
    assert frame["long"].tolist() == [False, False, True]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("target: a", "target: a\nprompt: x", "prompt and variants are both set"),
        ('short: "{{q}}"', "short: 7", "short must be text or a list of messages"),
        ("  short:", "  a/b:", "'a/b' is not a valid name*"),
        ("  short:", "  1:", "a variant's name must be text, not 1"),
        ("{{q}}", "{{z}}", "*'z'*"),
    ],
)
def test_invalid_variants_are_reported_with_their_line(sums, old, new, message):
    (sums.path / "sums.yaml").write_text(EVAL.replace(old, new, 1))
    result = sums.runpytest(ADDS)
    result.stdout.fnmatch_lines([f"sums.yaml:*{message}"])
    assert result.ret == pytest.ExitCode.INTERRUPTED
