"""``judge`` reads the results of each program, and its verdict is that of
``judge_gate`` on the same scores."""

import json
import random

import pytest
from backports.zstd import compress

from pytest_evals import judge_gate
from pytest_evals.__main__ import main
from tests.result_files.formats import (
    csv_file,
    harbor,
    inspect_eval,
    inspect_json,
    inspect_log,
    json_array,
    jsonl,
    lighteval,
    lm_eval,
    parquet,
    swe_bench,
)

WRITERS = {
    "lm-eval": (lm_eval, "out", "exact_match"),
    "lighteval": (lighteval, "out", "exact_match"),
    "inspect json": (inspect_json, "logs", "accuracy"),
    "inspect eval": (inspect_eval, "quiz.eval", "accuracy"),
    "inspect zstd": (lambda p, s: inspect_eval(p, s, compress), "z.eval", "accuracy"),
    "harbor": (harbor, "jobs", "reward"),
    "swe-bench": (swe_bench, "agent.run.json", "resolved"),
    "jsonl": (jsonl, "scores.jsonl", "acc"),
    "json": (json_array, "scores.json", "acc"),
    "csv": (csv_file, "scores.csv", "acc"),
    "semicolons": (lambda p, s: csv_file(p, s, ";"), "scores.csv", "acc"),
    "parquet": (parquet, "scores.parquet", "acc"),
}
GATES = (
    {"min": 0.8},
    {"min": 0.8, "over": "population"},
    {"max_drop": 0.05},
    {"recovery": 0.97, "over": "run"},
)


def drawn(
    seed: int, n: int, share: float, n_errors: int = 0
) -> dict[str, float | None]:
    """Scores of documents."""
    rng = random.Random(seed)
    scores = {f"d{i}": float(rng.random() < share) for i in range(n)}
    for one in rng.sample([*scores], n_errors):
        scores[one] = None
    return scores


def verdict_of(out: str) -> str:
    """The outcome of the only gate in ``results.json``."""
    return json.loads(out)["gates"][0]["outcome"]


@pytest.mark.slow
@pytest.mark.parametrize("program", WRITERS)
@pytest.mark.parametrize("seed", [1, 2])
def test_the_verdict_is_that_of_the_scores(program, seed, tmp_path, capsys):
    write, name, metric = WRITERS[program]
    old, new = drawn(seed, 200, 0.85), drawn(seed + 10, 200, 0.8, n_errors=seed - 1)
    (tmp_path / "old").mkdir()
    (tmp_path / "new").mkdir()
    shuffled = dict(random.Random(seed).sample([*old.items()], len(old)))
    paths = [
        str(write(tmp_path / side / name, scores))
        for side, scores in (("new", new), ("old", shuffled))
    ]
    for gate in GATES:
        has_baseline = "min" not in gate
        expected = judge_gate(
            gate,
            [*new.values()],
            baseline=[old[one] for one in new] if has_baseline else None,
        )
        report = tmp_path / "results.json"
        entry = json.dumps({"metric": metric, **gate})
        arguments = [paths[0], entry, "--json", str(report)]
        arguments += ["--baseline", paths[1]] if has_baseline else []
        code = main(["judge", *arguments])
        found = json.loads(report.read_text())["gates"][0]
        assert found["outcome"] == expected.outcome.value, capsys.readouterr().out
        assert code == expected.is_red
        if expected.interval is not None:
            limits = found["interval"]["low"], found["interval"]["high"]
            assert limits == pytest.approx((expected.low, expected.high))


def test_each_filter_has_its_own_rows(tmp_path, capsys):
    scores = drawn(1, 100, 0.4)
    folder = str(
        lm_eval(tmp_path / "out", scores, ("strict-match", "flexible-extract"))
    )
    samples = next(tmp_path.rglob("samples_*"))
    rows = [json.loads(line) for line in samples.read_text().splitlines()]
    for row in rows:
        row["exact_match"] = float(
            row["filter"] == "flexible-extract" or row["exact_match"]
        )
    samples.write_text("".join(json.dumps(row) + "\n" for row in rows))
    results = next(tmp_path.rglob("results_*"))
    content = json.loads(results.read_text())
    content["results"]["quiz"]["exact_match,flexible-extract"] = 1.0
    results.write_text(json.dumps(content))
    assert main(["judge", folder, "exact_match,flexible-extract >= 0.95"]) == 0
    assert main(["judge", folder, "quiz/exact_match,strict-match >= 0.5"]) == 1
    share = sum(scores.values()) / 100
    assert f"exact_match {share:.3f} is not >= 0.5" in capsys.readouterr().out
    for gate, message in (
        (
            "exact_match >= 0.5",
            "name one of exact_match,strict-match, exact_match,flex",
        ),
        (
            "exact_match,strict >= 0.5",
            "unknown filter 'strict' of quiz/exact_match; did",
        ),
        ("quizz/exact_match,strict-match >= 0", "unknown task 'quizz'; did you mean"),
        ("f1 >= 0.5", "no document has the metric 'f1'"),
    ):
        assert main(["judge", folder, gate]) == 2
        assert message in capsys.readouterr().err


def test_epochs_are_repeats_of_one_document(tmp_path, capsys):
    log = inspect_log({"a": 1.0, "b": 1.0}, epochs=4)
    log["samples"][0]["scores"]["match"]["value"] = "I"
    path = tmp_path / "log.json"
    path.write_text(json.dumps(log))
    assert main(["judge", str(path), "accuracy,match >= 0.875"]) == 0
    assert "0.875" in capsys.readouterr().out
    gate = '{"every": "4 of 4"}'
    assert main(["judge", str(path), gate]) == 1


def test_an_errored_trial_is_not_a_wrong_answer(tmp_path, capsys):
    scores = {"a": 1.0, "b": 1.0, "c": None}
    folder = str(harbor(tmp_path / "jobs", scores))
    assert main(["judge", folder, "reward >= 0.9"]) == 1
    out = capsys.readouterr().out
    assert "INVALID" in out
    assert "AgentTimeoutError: 900 s" in out
    assert main(["judge", folder, "reward >= 0.6"]) == 0


def test_an_interrupted_log_of_inspect_is_read_with_a_note(tmp_path, capsys):
    path = inspect_eval(tmp_path / "quiz.eval", {"a": 1.0})
    import zipfile

    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    members["_journal/start.json"] = members.pop("header.json")
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    assert main(["judge", str(path), "accuracy >= 0.9"]) == 0
    assert "the log's status is 'started'" in capsys.readouterr().out


def test_the_newest_of_several_runs_is_read(tmp_path, capsys):
    folder = lm_eval(tmp_path / "out", {"a": 0.0, "b": 0.0})
    newer = "2026-11-27T10-00-00.000000"
    for path in [*folder.rglob("*2026*")]:
        text = path.read_text().replace('"exact_match": 0.0', '"exact_match": 1.0')
        text = text.replace('"exact_match,none": 0.0', '"exact_match,none": 1.0')
        name = path.name.replace("2026-11-26T10-00-00.123456", newer)
        path.with_name(name).write_text(text)
    assert main(["judge", str(folder), "exact_match >= 0.9"]) == 0
    assert f"the newest of 2 runs, results_{newer}.json" in capsys.readouterr().out


def test_results_of_several_models_must_be_named(tmp_path, capsys):
    folder = lm_eval(tmp_path / "out", {"a": 1.0})
    (folder / "org__model").rename(folder / "org__other")
    lm_eval(tmp_path / "second", {"a": 1.0})
    (tmp_path / "second" / "org__model").rename(folder / "org__model")
    assert main(["judge", str(folder), "exact_match >= 0.9"]) == 2
    assert "results in 2 folders: org__model, org__other" in capsys.readouterr().err


def test_a_custom_aggregation_is_not_guessed(tmp_path, capsys):
    """The number of the results file is not the mean of the documents' values."""
    folder = lm_eval(tmp_path / "out", {"a": 1.0, "b": 0.0})
    results = next(folder.rglob("results_*"))
    content = json.loads(results.read_text())
    content["results"]["quiz"]["exact_match,none"] = 0.9
    results.write_text(json.dumps(content))
    assert main(["judge", str(folder), "exact_match >= 0.8"]) == 1
    out = capsys.readouterr().out
    assert "INVALID" in out
    assert "the results file has 0.9, and the documents give 0.5" in out


@pytest.mark.guests
def test_recorded_output_of_lm_eval_gives_its_own_numbers(request, capsys):
    """Recorded with lm-eval 0.4.13; each metric is aggregated as there."""
    folder = request.config.rootpath / "tests/parity/files/plain"
    stored = json.loads((folder / "results.json").read_text())["results"]
    gates = [
        f"{task}/{key} >= {value - 1e-6!r}"
        for task, numbers in stored.items()
        for key, value in numbers.items()
        if "," in key
        and "_stderr" not in key
        and isinstance(value, float)
        and value < 1e3
    ]
    assert len(gates) > 12
    assert main(["judge", str(folder), *gates, "--range=none"]) == 0, (
        capsys.readouterr().out
    )
