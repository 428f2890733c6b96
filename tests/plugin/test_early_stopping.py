"""``--evals-stop``: a task stops when its gates are decided, independently of the order
in which responses arrive."""

import json

import pytest
import yaml

from pytest_evals import OptionError, evaluate

N = 600
MODEL = """
import time
import pytest
from pytest_evals import Response

PACE = 0

class Model:
    name = "nine of ten"

    def answer(self, requests):
        with open("requests", "a") as file:
            for position, request in enumerate(requests):
                task, number = request.prompt.rstrip("?").split()
                file.write(f"{task} {number}\\n")
                file.flush()
                time.sleep(PACE)
                is_right = int(number) % 10 != 3
                yield position, Response(text=f"a{number}" if is_right else "no")

@pytest.fixture(scope="session")
def eval_model():
    return Model()
"""


@pytest.fixture
def big(suite):
    """Two tasks of 600 documents, of which 540 are answered correctly."""
    (suite.evals / "quiz.yaml").unlink()
    suite.pytester.makeconftest(MODEL)
    rows = [{"id": f"q{i}", "n": i} for i in range(N)]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    for name in ("one", "two"):
        (suite.evals / f"{name}.jsonl").write_text(lines)
        path = suite.task(name, doc_to_text=name + " {{n}}?", doc_to_target="a{{n}}")
        (suite.evals / f"{name}.jsonl").write_text(lines)
        assert path.is_file()
    return suite


def gates(suite, name, *entries):
    path = suite.evals / f"{name}.yaml"
    config = yaml.safe_load(path.read_text()) | {"gates": [*entries]}
    path.write_text(yaml.safe_dump(config))


def numbers_sent(suite, name="one"):
    path = suite.pytester.path / "requests"
    lines = path.read_text().splitlines()
    path.unlink()
    return [int(line.split()[1]) for line in lines if line.startswith(name)]


@pytest.mark.slow
def test_a_task_stops_at_the_end_of_a_wave_and_the_next_one_starts(big):
    gates(big, "one", "exact_match >= 0.7")
    gates(big, "two", "exact_match >= 0.7", {"must_pass": ["q1"]})
    options = ("--evals-stop=auto", "--evals-save-baseline=main", "-rs")
    done = big.run("evals", *options, model=None)
    numbers = numbers_sent(big)
    assert len(numbers) in range(64, 300, 64)
    assert numbers != sorted(numbers)
    counts = done.parseoutcomes()
    assert counts["stopped"] == N - len(numbers)
    assert sum(counts.values()) == 2 * N + 3
    n = len(numbers)
    message = "evals/one.yaml:*: the gates of its task are decided"
    done.stdout.fnmatch_lines([f"STOPPED [[]{N - n}[]] {message}"])
    done.stdout.fnmatch_lines(
        [
            "evals: warning: two runs to the end: of gate 'must-pass', it is about*",
            f"one *{n}/600* >= 0.7 *passed (early)",
            f"one::exact_match passed (early): holds, decided after {n} of 600 docum*",
            "*the full run would agree with a probability of at least 99%*",
            f"baseline 'main' is not saved: {n + N} of 1,200 documents were run",
        ]
    )
    assert done.ret == 1
    results = big.results()
    early, whole, *_ = results["gates"]
    assert (early["outcome"], early["early"], whole["early"]) == ("passed", True, False)
    assert early["interval"]["low"] > 0.7
    assert early["interval"]["low"] < 0.9 < early["interval"]["high"]
    assert results["partial"] == f"{n + N} of 1,200 documents were run"
    assert results["counts"]["one"]["missing"] == N - n


@pytest.mark.slow
def test_waves_are_assigned_to_workers_and_decided_on_the_controller(big):
    gates(big, "one", "exact_match >= 0.97")
    # slow enough that the controller decides before workers have finished
    big.pytester.makeconftest(MODEL.replace("PACE = 0", "PACE = 0.005"))
    done = big.run("evals/one.yaml", "--evals-stop=auto", "-n2", model=None)
    assert done.ret == 1
    done.stdout.fnmatch_lines(
        [
            "exact_match *does not hold, decided after *",
            "E * documents: * correct, * wrong, * not run; 600 in all.",
        ]
    )
    (gate,) = big.results()["gates"]
    n = int(gate["reason"].split(" of 600")[0].split()[-1])
    assert n % 64 == 0
    assert n <= len(numbers_sent(big)) < N


@pytest.mark.slow
def test_curtailment_stops_a_task_whose_verdict_cannot_change(big):
    gates(big, "one", {"metric": "exact_match", "min": 0.5, "max": 0.97})
    done = big.run("evals/one.yaml", "--evals-stop=curtail", model=None)
    # 583 correct are too many, 300 are enough: certain only when 19 were wrong, and 300
    # correct; of each 64 about 6 are wrong
    assert 318 <= len(numbers_sent(big)) <= 448
    done.stdout.fnmatch_lines(
        ["*(early): holds, decided after*", "*the others cannot change it*"]
    )


@pytest.mark.slow
def test_tasks_that_cannot_stop_early_are_complete_and_report_the_reason(big):
    gates(big, "one", "exact_match >= 0.7")
    big.group("both", task=["one", "two"], gates=["exact_match >= 0.5"])
    gates(big, "two", "exact_match >= 0.7")
    done = big.run("evals", "--evals-stop=auto", model=None)
    assert len(numbers_sent(big)) == N
    done.stdout.fnmatch_lines(
        ["*warning: one, two runs to the end: a gate of a group includes it"]
    )
    (big.evals / "both.yaml").unlink()
    with (big.pytester.path / "conftest.py").open("a") as file:
        file.write(
            "\n@pytest.hookimpl(tryfirst=True)\n"
            "def pytest_collection_finish(session):\n"
            "    session.items.sort(key=lambda item: item.name)\n"
        )
    done = big.run("evals/one.yaml", "--evals-stop=auto", model=None)
    assert len(numbers_sent(big)) == N
    done.stdout.fnmatch_lines(
        ["*one runs to the end: another plugin has changed the order of its docu*"]
    )


@pytest.mark.slow
def test_tasks_without_expected_savings_do_not_stop_early(big):
    gates(big, "one", "exact_match >= 0.7")
    big.run("evals/one.yaml", "--evals-save-baseline=main", model=None)
    gates(big, "one", "exact_match >= 0.895")
    numbers_sent(big)
    options = ("--evals-compare=main", "--evals-stop=auto")
    done = big.run("evals/one.yaml", *options, model=None)
    assert len(numbers_sent(big)) == N
    done.stdout.fnmatch_lines(
        ["*one runs to the end: stopping would save about *% of the documents, by*"]
    )
    gates(big, "one", "exact_match >= 0.85")
    big.run("evals/one.yaml", *options, model=None)
    with_scores = len(numbers_sent(big))
    big.run("evals/one.yaml", "--evals-stop=auto", model=None)
    assert with_scores < len(numbers_sent(big)) <= N


@pytest.mark.slow
def test_drop_since_a_baseline_is_decided_early_if_documents_are_the_same(big):
    big.run("evals/one.yaml", "--evals-save-baseline=main", model=None)
    drop = {"baseline": "main", "max_drop": 0.1, "over": "run"}
    gates(big, "one", {"metric": "exact_match", **drop})
    numbers_sent(big)
    done = big.run("evals/one.yaml", "--evals-stop=auto", model=None)
    assert len(numbers_sent(big)) < N
    done.stdout.fnmatch_lines(["one::exact_match-vs-main passed (early): holds, *"])
    path = big.evals / "one.jsonl"
    path.write_text(path.read_text().replace('"n": 1', '"n": 91'))
    done = big.run("evals/one.yaml", "--evals-stop=auto", model=None)
    assert len(numbers_sent(big)) == N
    done.stdout.fnmatch_lines(
        ["*one runs to the end: of gate 'exact_match-vs-main', documents differ from*"]
    )
    (gate,) = json.loads(latest(big).read_text())["gates"]
    assert gate["outcome"] == "passed"


@pytest.mark.slow
def test_verdicts_that_others_of_the_family_correct_are_not_decided_early(big):
    gate = {"metric": "exact_match", "min": 0.7, "over": "population"}
    gates(big, "one", gate, {**gate, "min": 0.6, "id": "other"})
    done = big.run("evals/one.yaml", "--evals-stop=auto", model=None)
    assert len(numbers_sent(big)) == N
    done.stdout.fnmatch_lines(["*its failure would be corrected for the other*"])
    gates(big, "one", gate, {**gate, "min": 0.6, "id": "other", "family": "none"})
    big.run("evals/one.yaml", "--evals-stop=auto", model=None)
    assert len(numbers_sent(big)) < N


def latest(suite):
    return sorted(suite.pytester.path.glob(".evals/runs/*/results.json"))[-1]


@pytest.mark.parametrize(
    ("option", "why"),
    [
        ("--evals-stop=always", "expected off, curtail or auto"),
        ("--evals-stop-error=2", "expected a share, such as 5%"),
    ],
)
def test_invalid_early_stopping_options_are_usage_errors(suite, option, why):
    done = suite.run("evals", option, model="scripted:break")
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    done.stderr.fnmatch_lines([f"*{option}: {why}"])


LABELS = MODEL.replace(
    'yield position, Response(text=f"a{number}" if is_right else "no")',
    "label = int(number) % 2 if is_right else 1 - int(number) % 2\n"
    '                is_label = request.continuation.strip() == ["no", "yes"][label]\n'
    "                yield position, Response(logprob=-1.0 if is_label else -2.0)",
).replace("request.prompt", "request.context")


@pytest.mark.slow
def test_f1_is_decided_early_as_a_sum_over_documents(big):
    """Of 300 labels 1, 60 are missed, without a false positive: F1 is 8 / 9."""
    big.pytester.makeconftest(LABELS)
    changes = {
        "output_type": "multiple_choice",
        "doc_to_text": "one {{n}}?",
        "doc_to_choice": ["no", "yes"],
        "doc_to_target": "{{n % 2}}",
        "metric_list": [{"metric": "f1", "aggregation": "f1"}],
    }
    rows = (big.evals / "one.jsonl").read_text()
    big.task("one", **changes)
    (big.evals / "one.jsonl").write_text(rows)
    gates(big, "one", "f1 >= 0.7")
    done = big.run("evals/one.yaml", "--evals-stop=auto", model=None)
    assert done.ret == 0
    n = len({*numbers_sent(big)})
    assert n in range(64, 600, 64)
    done.stdout.fnmatch_lines(
        [f"one::f1 passed (early): holds, decided after {n} of 600 documents*"]
    )


def questions(suite):
    path = suite.pytester.path / "requests"
    lines = [line.split() for line in path.read_text().splitlines()]
    path.unlink()
    return lines


@pytest.mark.slow
def test_evaluate_stops_at_the_same_document_as_pytest(big, monkeypatch):
    monkeypatch.chdir(big.pytester.path)
    gates(big, "one", "exact_match >= 0.7")
    gates(big, "two", "exact_match >= 0.7", {"must_pass": ["q1"]})
    big.run("evals", "--evals-stop=auto", model=None)
    by_pytest = questions(big)
    names: dict[str, object] = {}
    exec(MODEL, names)
    result = evaluate("evals", names["Model"](), stop="auto", folder="by_script")
    assert questions(big) == by_pytest
    (path,) = big.pytester.path.glob("by_script/runs/*/results.json")
    by_script, pytests = json.loads(path.read_text()), big.results()
    for key in ("gates", "counts", "partial", "task_hashes", "warnings"):
        assert by_script[key] == pytests[key], key
    assert by_script["gates"][0]["early"]
    assert result.warnings == (
        "two runs to the end: of gate 'must-pass', it is about single documents",
    )
    samples = path.with_name("samples_one.jsonl").read_text().splitlines()
    numbers = [json.loads(line)["doc_id"] for line in samples]
    assert numbers == sorted(int(n) for name, n in by_pytest if name == "one")


@pytest.mark.parametrize(
    ("wish", "message"),
    [
        ({"stop": "soon"}, "stop='soon': expected off, curtail or auto"),
        (
            {"stop": "auto", "stop_error": 5},
            "stop_error=5: expected a fraction from 0 to 1",
        ),
    ],
)
def test_invalid_stop_arguments_of_evaluate_are_refused(wish, message):
    with pytest.raises(OptionError, match=message):
        evaluate("evals", "scripted:x", **wish)


@pytest.mark.slow
def test_a_sampled_run_is_decided_early_by_the_verdict_of_the_whole_benchmark(big):
    drop = {"metric": "exact_match", "baseline": "main", "max_drop": 0.1, "over": "run"}
    gates(big, "one", drop, {"metric": "exact_match", "min": 0.7, "id": "floor"})
    assert big.run("evals/one.yaml", "--evals-save-baseline=main", model=None).ret == 0
    options = ("--evals-sample=500", "--evals-stop=auto")
    done = big.run("evals/one.yaml", *options, model=None)
    assert done.ret == 0 and done.parseoutcomes()["stopped"] >= 250
    path = max(big.pytester.path.glob(".evals/runs/*/results.json"))
    for gate in json.loads(path.read_text())["gates"]:
        assert (
            "decided after" in gate["reason"] and "of 600 documents" in gate["reason"]
        )


@pytest.mark.slow
def test_an_eval_with_scorers_of_its_own_is_decided_early(big):
    rows = [{"id": f"q{i}", "n": i} for i in range(N)]
    config = {"prompt": "one {{n}}?", "target": "a{{n}}", "rows": rows}
    path = big.evals / "one.yaml"
    path.write_text(yaml.safe_dump(config | {"gates": ["exact >= 0.7"]}))
    done = big.run("evals/one.yaml", "--evals-stop=auto", model=None)
    done.stdout.fnmatch_lines(["*(early): holds, decided after*"])
    assert len(numbers_sent(big)) < N
