"""``--evals-export`` and ``export``: results under the names of other programs."""

import json
import re

import pytest
import yaml

from pytest_evals.__main__ import main
from pytest_evals.result_files.find import read_results

_NAME = re.compile(
    r"(results|samples_quiz)_\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d\.\d{6}\.jsonl?"
)


def exported(suite, *options):
    result = suite.run("evals", *options)
    (run,) = (suite.pytester.path / ".evals/runs").iterdir()
    return result, run / "export"


def test_the_export_for_lm_eval_has_its_names_and_the_numbers_of_the_run(suite, capsys):
    suite.knows(wrong=[4])
    result, folder = exported(suite, "--evals-export=lm-eval")
    result.stdout.fnmatch_lines(["export: .evals/runs/*/export/*/results_*.json"])
    (model,) = folder.iterdir()
    assert all(_NAME.fullmatch(path.name) for path in model.iterdir())
    assert main(["judge", str(folder), "quiz/exact_match >= 0.9"]) == 0
    assert main(["judge", str(folder), "quiz/exact_match > 0.9"]) == 1
    run = read_results(folder)
    assert run.results["results"]["quiz"]["exact_match,none"] == 0.9


def test_chats_are_text_in_the_export(suite):
    _, folder = exported(suite, "--evals-apply-chat-template", "--evals-export=lm-eval")
    (samples,) = folder.rglob("samples_*")
    row = json.loads(samples.read_text().splitlines()[0])
    prompt = row["arguments"]["gen_args_0"]["arg_0"]
    assert json.loads(prompt) == [{"role": "user", "content": "quiz 0?"}]


def test_an_error_is_not_a_wrong_answer_in_the_export(suite, capsys):
    suite.knows(errors=[4])
    _, folder = exported(suite, "--evals-export=lm-eval")
    assert main(["judge", str(folder), "quiz/exact_match >= 0.95"]) == 1
    assert "invalid" in capsys.readouterr().out


def test_the_export_for_the_hub_has_whole_datasets_of_the_hub(suite, capsys):
    _, folder = exported(suite)
    run = folder.parent
    out = str(suite.pytester.path / "out")
    assert main(["export", str(run), "--to=hub", "-o", out]) == 2
    assert "no task is a whole dataset of the Hub" in capsys.readouterr().err
    results = json.loads((run / "results.json").read_text())
    config = {"dataset_path": "org/quiz", "dataset_name": "main"}
    results["configs"]["quiz"] |= {**config, "dataset_kwargs": {"revision": "abc"}}
    (run / "results.json").write_text(json.dumps(results))
    assert main(["export", str(run), "--to=hub", "-o", out]) == 0
    path = suite.pytester.path / "out/.eval_results/org__quiz.yaml"
    (entry,) = yaml.safe_load(path.read_text())
    assert entry["dataset"] == {"id": "org/quiz", "task_id": "main", "revision": "abc"}
    assert entry["value"] == 1.0
    assert entry["notes"] == "exact_match of quiz, 10 documents, 0 few-shot examples"


@pytest.mark.parametrize("form", ["csv", "lm_eval"])
def test_an_unknown_form_is_a_usage_error(suite, form):
    result = suite.run("evals", f"--evals-export={form}")
    assert result.ret == 4
    result.stderr.fnmatch_lines(["*--evals-export*expected lm-eval or hub*"])
