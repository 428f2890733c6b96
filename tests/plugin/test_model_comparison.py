"""Models side by side: the tables, the matrix and the files of a session and of
``evaluate()``."""

from __future__ import annotations

import json

import pytest

from pytest_evals import OptionError, evaluate
from tests.plugin.test_several_models import BAD, GOOD, sums, write  # noqa: F401


def adds(prompt):
    """Correct."""
    first, second = prompt.split("+")
    return str(int(first) + int(second))


def doubles(prompt):
    """Correct for equal numbers."""
    return str(2 * int(prompt.split("+")[0]))


def repeats(prompt):
    """Correct if the second number is 0."""
    return prompt.split("+")[0]


ROWS = [{"prompt": f"{i}+{i % 3}", "target": str(i + i % 3)} for i in range(2, 42)]
N = len(ROWS)
DOUBLED = sum(i % 3 == i for i in range(2, 42)) / N
REPEATED = sum(i % 3 == 0 for i in range(2, 42)) / N


@pytest.fixture(scope="module")
def found():
    return evaluate(ROWS, [adds, repeats, doubles])


def test_each_model_has_its_result(found):
    assert [*found] == ["adds", "repeats", "doubles"]
    values = [one.tasks[0].metrics[0].estimate.value for one in found.values()]
    assert values == pytest.approx([1, REPEATED, DOUBLED])


@pytest.mark.slow
def test_changes_are_those_of_a_paired_comparison(found):
    """The p-values are those of two comparisons, the smaller one times two (Holm)."""
    _, repeated, doubled = found.comparison.metrics
    for name, one, value in (
        ("repeats", repeated, REPEATED),
        ("doubles", doubled, DOUBLED),
    ):
        assert one.model == name
        assert one.change.now - one.change.before == pytest.approx(value - 1)
    alone = {
        function: evaluate(ROWS, [adds, function]).comparison.metrics[1]
        for function in (repeats, doubles)
    }
    assert repeated.change == alone[repeats].change
    smaller, larger = sorted(one.p_value for one in alone.values())
    adjusted = sorted(one.p_value for one in (repeated, doubled))
    assert adjusted == pytest.approx([2 * smaller, max(2 * smaller, larger)])


def test_another_model_is_the_reference():
    result = evaluate(ROWS, {"a": adds, "b": repeats}, reference="b")
    first, second = result.comparison.metrics
    assert second.change is None
    assert first.change.now - first.change.before == pytest.approx(1 - REPEATED)


def test_the_matrix_has_a_row_for_each_document(found):
    pytest.importorskip("pandas")
    frame = found.to_pandas("matrix")
    assert len(frame) == N
    assert [*frame.columns] == [
        "task", "id", "adds", "repeats", "doubles", "agreement",
    ]  # fmt: skip
    assert frame["adds"].all()
    assert frame["repeats"].mean() == pytest.approx(REPEATED)
    all_correct = frame[["adds", "repeats", "doubles"]].all(axis=1)
    assert ((frame["agreement"] == "all correct") == all_correct).all()


def test_other_frames_have_the_rows_of_all_models(found):
    pytest.importorskip("pandas")
    assert [*found.to_pandas("metrics")["model"]] == [*found]
    counts = found.to_pandas("documents")["model"].value_counts()
    assert counts.to_dict() == dict.fromkeys(found, N)


def test_ranks_follow_the_values(found):
    ranks = {one.model: one.rank for one in found.comparison.metrics}
    assert [ranks[name].rank for name in ("adds", "repeats", "doubles")] == [1, 2, 3]
    assert ranks["adds"].first == 1


def test_models_without_a_name_of_their_own_are_refused():
    with pytest.raises(OptionError, match="two models are called 'adds'"):
        evaluate(ROWS, [adds, adds])
    with pytest.raises(OptionError, match="reference: unknown model 'x'"):
        evaluate(ROWS, [adds, repeats], reference="x")


@pytest.mark.slow
def test_evaluate_saves_and_compares_each_model(tmp_path):
    evaluate(ROWS, [adds, repeats], save="main", folder=tmp_path)
    saved = {path.name for path in (tmp_path / "baselines").iterdir()}
    assert saved == {"main-adds", "main-repeats"}
    found = evaluate(ROWS, [adds, repeats], compare="main", folder=tmp_path)
    assert found["adds"].comparison.name == "main-adds"


def test_the_terminal_compares_the_models(sums):  # noqa: F811
    result = sums.runpytest(GOOD, BAD, "--evals-reference=bad")
    result.stdout.fnmatch_lines(
        [
            "*= evals: models =*",
            "task  metric  model  value  change *rank  first",
            "sums  exact   good   1.000  +0.667 *",
            "              bad    0.333 *",
            "documents: 1 all correct, 0 all wrong, 2 they disagree",
            "sums?a? *2 *✓ 2 *✗ 1*",
        ]
    )


def test_an_unknown_reference_is_refused(sums):  # noqa: F811
    result = sums.runpytest(GOOD, BAD, "--evals-reference=bed")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--evals-reference: *'bed'*did you mean 'bad'*"])


@pytest.mark.slow
def test_files_have_all_models_and_each_model_has_its_own(sums):  # noqa: F811
    names = ("html", "json", "markdown")
    sums.runpytest(GOOD, BAD, *(f"--evals-{name}=out/r.{name}" for name in names))
    folder = sums.path / "out"
    written = {path.name for path in folder.iterdir()}
    assert {"r.html", "r-good.html", "r-bad.html"} <= written
    found = json.loads((folder / "r.json").read_text())
    assert found["agreements"] == {"all correct": 1, "all wrong": 0, "they disagree": 2}
    alone = json.loads((folder / "r-bad.json").read_text())
    assert alone["results"]["sums"]["exact,none"] == pytest.approx(1 / 3)
    text = (folder / "r.markdown").read_text()
    assert "| `sums` | `exact` | `bad` | 0.333 | -0.667" in text
    assert "Model `python:apps:adds`" in text


@pytest.mark.slow
def test_prompts_are_rendered_once_for_all_models(sums):  # noqa: F811
    (sums.path / "counted.py").write_text(
        "from pathlib import Path\n"
        "def text(doc):\n"
        "    with Path('calls').open('a') as stream:\n"
        "        stream.write(f\"{doc['q']}\\n\")\n"
        "    return doc['q']\n"
    )
    (sums.path / "d.jsonl").write_text(
        "".join(f'{{"q": "{i}+1", "a": "{i + 1}"}}\n' for i in range(20))
    )
    (sums.path / "sums.yaml").write_text(
        "task: sums\ndataset_path: json\n"
        "dataset_kwargs: {data_files: {test: d.jsonl}}\n"
        "test_split: test\noutput_type: generate_until\n"
        "doc_to_text: !function counted.text\ndoc_to_target: a\n"
        "metric_list: [{metric: exact_match}]\n"
    )

    def calls(*models):
        (sums.path / "calls").unlink(missing_ok=True)
        assert sums.runpytest(*models, "--evals-cache=off").ret == 0
        return (sums.path / "calls").read_text().count("\n")

    assert calls(GOOD, BAD, "--model=x=python:apps:adds") == calls(GOOD)
