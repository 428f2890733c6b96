"""``evaluate()`` compared with pytest: the same suite, numbers, verdicts and files."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from pytest_evals import (
    ModelError,
    OptionError,
    Response,
    Score,
    StoreError,
    TaskFileError,
    TaskOptions,
    case,
    evaluate,
)
from pytest_evals import eval as evals

CONFTEST = """
import pytest
from pytest_evals import Response

class Knowing:
    '''A model with all answers but two, and with a fingerprint.'''

    name = "knowing"
    fingerprint = {"knows": "all but two"}
    info = {"kind": "stand-in"}
    n_requests = 0

    def answer(self, requests):
        for position, request in enumerate(requests):
            self.n_requests += 1
            number = request.prompt.split()[-1].removesuffix("?")
            yield position, Response(text="no" if number in "34" else f"a{number}")

@pytest.fixture(scope="session")
def eval_model():
    return Knowing()
"""
names: dict[str, object] = {}
exec(CONFTEST, names)
Knowing = names["Knowing"]


@pytest.fixture
def both(suite, monkeypatch):
    """Two tasks, their group, and gates in all places."""
    monkeypatch.chdir(suite.pytester.path)
    base = {"metric": "exact_match", "baseline": "main", "max_drop": 0.05}
    suite.task("quiz", gates=["exact_match >= 0.5", {**base, "over": "run"}])
    suite.task("zoo", tag="animals")
    suite.knows(tasks=("quiz", "zoo"))
    suite.group("all", task=["quiz", "zoo"], gates=["exact_match >= 0.9"])
    (suite.evals / "gates.yaml").write_text("gates: [zoo/exact_match >= 0.75]\n")
    return suite


def numbers(results):
    return {
        name: {key: value for key, value in found.items() if "," in key}
        for name, found in results["results"].items()
    }


def verdicts(results):
    return {
        (gate["task"], gate["id"]): (gate["outcome"], gate["reason"], gate["change"])
        for gate in results["gates"]
    }


@pytest.mark.slow
def test_evaluate_has_the_results_of_pytest(both):
    both.run("evals", "--evals-save-baseline=main")
    both.pytester.makeconftest(CONFTEST)
    both.run("evals", "--evals-json=by_pytest.json", model=None)
    by_pytest = json.loads(Path("by_pytest.json").read_text())

    model = Knowing()
    result = evaluate("evals", model, folder=".evals")
    newest = max(
        Path(".evals/runs").iterdir(), key=lambda path: path.stat().st_mtime_ns
    )
    by_script = json.loads((newest / "results.json").read_text())

    assert numbers(by_script) == numbers(by_pytest)
    assert verdicts(by_script) == verdicts(by_pytest)
    outcomes = {key: outcome for key, (outcome, *_) in verdicts(by_script).items()}
    assert outcomes == {
        ("quiz", "exact_match"): "passed",
        ("quiz", "exact_match-vs-main"): "failed",
        ("zoo", "exact_match"): "passed",
        ("all", "exact_match"): "failed",
    }
    assert by_script["task_hashes"] == by_pytest["task_hashes"]
    assert by_script["node_ids"] == by_pytest["node_ids"]
    assert by_script["sample_files"] == by_pytest["sample_files"]
    assert model.n_requests == 0, "what pytest has stored is used"
    assert result.reuse.n_reused == 20
    assert sorted(one.name for one in newest.iterdir()) == [
        "results.json",
        "samples_quiz.jsonl",
        "samples_zoo.jsonl",
    ]


def test_evaluate_writes_no_files_without_a_folder(both):
    model = Knowing()
    result = evaluate(["evals/quiz.yaml"], model)
    assert model.n_requests == 10
    assert not Path(".evals").exists()
    (failed,) = [one for one in result.verdicts if one.gate.baseline]
    assert "unknown baseline 'main'" in failed.reason


def test_evaluate_applies_its_options_and_gates(both):
    options = TaskOptions(limit=2)
    result = evaluate(
        Path("evals/zoo.yaml"), Knowing(), options, gates=["zoo/exact_match >= 0.2"]
    )
    assert [len(task.records) for task in result.tasks] == [2]
    assert [one.outcome.value for one in result.verdicts] == ["passed", "passed"]
    assert result.options["limit"] == 2


def test_the_release_profile_applies_as_in_pytest(both):
    """8 of 10 are correct: the exact 95% limits are 0.493 and 0.963."""
    gates = ["zoo/exact_match >= 0.7"]
    model = SimpleNamespace(name="m", answer=Knowing().answer)
    usual = evaluate("evals/zoo.yaml", model, gates=gates).verdicts
    assert [(one.gate.over, one.is_red) for one in usual] == [("run", False)] * 2
    strict = evaluate("evals/zoo.yaml", model, gates=gates, profile="release").verdicts
    assert [(one.gate.over, one.outcome.value, one.is_red) for one in strict] == [
        ("population", "inconclusive", True)
    ] * 2
    # the file's gate and that of the call; both would have failed in pytest
    both.pytester.makeconftest(CONFTEST)
    both.run(
        "evals/zoo.yaml",
        "--evals-profile=release",
        "--evals-gate=zoo/exact_match >= 0.7",
        model=None,
    )
    by_pytest = both.results()["gates"]
    assert [one["reason"] for one in by_pytest] == [one.reason for one in strict]


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"profile": "relase"}, "profile='relase': unknown profile; did you mean 're"),
        (
            {"profile": "release", "options": TaskOptions(limit=3)},
            "TaskOptions(limit=3) and profile='release' contradict each other: a "
            "release is judged over all documents; pass one of them",
        ),
    ],
)
def test_a_profile_that_contradicts_options_is_refused(both, keys, message):
    with pytest.raises(OptionError, match=re.escape(message)):
        evaluate("evals", "scripted:echo", **keys)


def test_a_spec_opens_a_model(both):
    result = evaluate("evals/zoo.yaml", "scripted:answers.jsonl")
    assert result.model == "scripted:answers.jsonl"
    assert result.tasks[0].metrics[0].estimate.value == 1.0


def test_evaluate_accepts_loaded_tasks(both):
    task = evaluate("evals/zoo.yaml", Knowing()).tasks[0].task
    assert evaluate(task, Knowing()).tasks[0].n_correct == 8


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("evals/quizz.yaml", "evals/quizz.yaml: file not found"),
        ("answers.jsonl", "answers.jsonl: this is not an eval file"),
        ("evals/gates.yaml", "evals/gates.yaml:1: looks like a gates file, *"),
    ],
)
def test_an_invalid_suite_is_refused(both, source, message):
    with pytest.raises(TaskFileError, match=message):
        evaluate(source, Knowing())


def test_a_gate_of_an_unknown_task_is_refused(both):
    with pytest.raises(OptionError, match="unknown task 'zooo'; did you mean 'zoo'"):
        evaluate("evals", Knowing(), gates=["zooo/exact_match >= 1"])
    with pytest.raises(OptionError, match="unknown kind of model 'hff'"):
        evaluate("evals", "hff:gpt2")


@pytest.mark.parametrize(
    "given",
    [
        {"gates": ["zoo/exact_match >= 0.1", "\ud800"]},
        {"model": "scripted:\ud800"},
        {"judge": "scripted:\ud800"},
        {"save": "\ud800", "folder": "runs"},
        {"options": TaskOptions(system_instruction="\ud800")},
        {"options": TaskOptions(metadata={"a": [{"b\ud800": 1}]})},
        {"options": TaskOptions(gen_kwargs={"until": ["\ud800"]})},
    ],
)
def test_a_text_that_utf_8_cannot_encode_is_refused(both, given):
    with pytest.raises(OptionError, match=r"character \d+ is '\\ud800', which UTF-8"):
        evaluate("evals", **{"model": Knowing(), **given})


class Partly(Knowing):
    """A model that has an answer to all requests of ``zoo`` except some numbers."""

    def __init__(self, *unknown):
        self.unknown = unknown
        self.fingerprint = {"unknown": list(unknown)}

    def answer(self, requests):
        for position, request in enumerate(requests):
            self.n_requests += 1
            number = request.prompt.split()[-1].removesuffix("?")
            text = "nonsense" if number in self.unknown else f"a{number}"
            yield position, Response(text=text)


def test_a_run_is_saved_and_another_one_compared_with_it_as_in_pytest(both):
    evaluate("evals/zoo.yaml", Partly("3"), folder=".evals", save="main")
    both.knows(wrong=[5, 6], tasks=["zoo"])
    both.run("evals/zoo.yaml", "--evals-compare=main")
    (by_pytest,) = Path(".evals/runs").glob("*/comparison.json")

    result = evaluate(
        "evals/zoo.yaml", Partly("5", "6"), folder=".evals", compare="main"
    )
    found = result.comparison
    assert [one.id for one in found.worse] == ["q5", "q6"]
    assert [one.id for one in found.better] == ["q3"]
    (by_script,) = {*Path(".evals/runs").glob("*/comparison.json")} - {by_pytest}
    both_found = [json.loads(path.read_text()) for path in (by_script, by_pytest)]
    for one in both_found:
        one["differences"] = []  # the two models have different descriptions
    assert both_found[0] == both_found[1]
    assert "compared with main: 10 documents, 2 worse, 1 better" in repr(result)
    assert "2 worse, 1 better" in result._repr_html_()
    changes = result.to_pandas("changes")
    assert [*changes["change"]] == ["worse", "worse", "better"]
    assert [*changes["now"]] == ["nonsense", "nonsense", "a3"]


def test_a_comparison_writes_no_files_without_a_folder(both):
    evaluate("evals/zoo.yaml", Partly(), folder="stored", save="main")
    result = evaluate(
        "evals/zoo.yaml", Partly("3"), compare="stored/baselines/main", judge=""
    )
    assert [one.id for one in result.comparison.worse] == ["q3"]
    assert not Path(".evals").exists()


def test_incomparable_runs_are_refused_before_the_first_request(both):
    evaluate("evals/zoo.yaml", Partly(), folder=".evals", save="main")
    model = Partly()
    with pytest.raises(StoreError, match=r"unknown baseline 'mian'.*; did you mean"):
        evaluate("evals/zoo.yaml", model, compare="mian")
    message = (
        "compare='main': this run is not comparable\n  zoo: 2 documents instead of 10"
    )
    with pytest.raises(OptionError, match=message):
        evaluate("evals/zoo.yaml", model, TaskOptions(limit=2), compare="main")
    assert model.n_requests == 0


def test_only_a_complete_stored_run_can_be_saved_as_baseline(both):
    with pytest.raises(
        OptionError, match=r"needs a folder.*\n  fix: evaluate\(…, fold"
    ):
        evaluate("evals/zoo.yaml", Partly(), save="main")
    with pytest.raises(OptionError, match=r"save='\.\./main': a name has letters"):
        evaluate("evals/zoo.yaml", Partly(), folder=".evals", save="../main")
    both.knows(errors=[1], tasks=["zoo"])
    with pytest.raises(StoreError, match="'main' is not saved: 1 document could not"):
        evaluate("evals/zoo.yaml", "scripted:answers.jsonl", folder="x", save="main")
    assert not Path("x/baselines").exists()
    both.knows(tasks=["zoo"])
    call = {"model": "scripted:answers.jsonl", "folder": "x", "save": "main"}
    call |= {"gates": ["zoo/exact_match < 0.5"]}
    blocked = r"'main' is not saved: gate zoo::exact_match#2 failed; .*save_failed=True"
    with pytest.raises(StoreError, match=blocked):
        evaluate("evals/zoo.yaml", **call)
    evaluate("evals/zoo.yaml", **call, save_failed=True)
    assert Path("x/baselines/main").is_dir()
    with pytest.raises(OptionError, match="save_failed needs a baseline's name"):
        evaluate("evals/zoo.yaml", Partly(), save_failed=True)


def test_a_gate_knows_that_its_baseline_is_replaced(both):
    result = evaluate("evals/quiz.yaml", Knowing(), folder=".evals", save="main")
    (gate,) = [one for one in result.verdicts if one.gate.baseline]
    assert gate.outcome.value == "skipped"


def test_evaluate_works_inside_a_running_event_loop(both):
    class WithLoop(Partly):
        def answer(self, requests):
            asyncio.run(asyncio.sleep(0))  # as clients of servers may do
            self.thread = threading.current_thread()
            yield from super().answer(requests)

    async def cell():
        model = WithLoop()
        return evaluate("evals/zoo.yaml", model), model.thread

    result, thread = asyncio.run(cell())
    assert result.tasks[0].n_correct == 10
    assert thread is not threading.main_thread()


def test_ctrl_c_in_a_notebook_stops_the_run_and_keeps_responses(both):
    class Slow(Partly):
        began = threading.Event()

        def answer(self, requests):
            for n, pair in enumerate(super().answer(requests)):
                if n == 4:
                    self.began.set()
                    while self.hangs:
                        time.sleep(0.01)
                yield pair

    async def cell(model):
        return evaluate("evals/zoo.yaml", model, folder=".evals")

    def interrupt():
        Slow.began.wait(60)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    model = Slow()
    model.hangs = True
    watcher = threading.Thread(target=interrupt)
    watcher.start()
    loop = asyncio.new_event_loop()  # as ipykernel: asyncio.run() handles Ctrl-C itself
    with pytest.raises(KeyboardInterrupt):
        loop.run_until_complete(cell(model))
    loop.close()
    watcher.join()
    again = Slow()
    again.hangs = False
    result = asyncio.run(cell(again))
    assert (again.n_requests, result.reuse.n_reused) == (6, 4)


def test_ctrl_c_that_python_ignores_in_a_callback_stops_the_run(both):
    class Ignoring(Partly):
        def answer(self, requests):
            def interrupted(reference):
                raise KeyboardInterrupt

            for n, pair in enumerate(super().answer(requests)):
                if n == 4:
                    callback = weakref.ref(lambda: None, interrupted)
                    assert callback() is None
                    time.sleep(0.5)
                yield pair

    with pytest.raises(KeyboardInterrupt):
        evaluate("evals/zoo.yaml", Ignoring(), folder=".evals")
    again = Partly()
    assert evaluate("evals/zoo.yaml", again, folder=".evals").reuse.n_reused == 4
    assert again.n_requests == 6


class Everything:
    """A hook of each kind, and the list of its calls."""

    def pytest_evals_open_model(self, spec, config):
        assert config is None
        return Partly() if spec.startswith("mine:") else None

    def pytest_evals_register_metrics(self):
        return {"length": lambda doc, response: len(response.text[0])}

    def pytest_evals_requests(self, task, records):
        shorter = [
            replace(r, requests=(replace(r.requests[0], max_tokens=2),))
            for r in records
        ]
        return shorter if task.name == "zoo" else None

    def pytest_evals_score(self, record, task):
        if (task.name, record.doc.id) == ("zoo", "q7"):
            raise ValueError("I cannot")
        if record.doc.id != "q9":
            return None
        return [Score(metric="exact_match", value=0.0, correct=False)]

    def pytest_evals_metrics(self, task, records):
        sizes = {r.requests[0].max_tokens for r in records if r.requests}
        return {"longest": max(sizes)}

    def pytest_evals_result(self, result):
        self.heard = result

    def pytest_configure(self, config):
        raise AssertionError("this is no pytest")


def test_plugins_of_a_script_implement_the_hooks_of_a_conftest(both):
    both.task("mine", metric_list=[{"metric": "length"}], gates=["longest >= 3"])
    plugin = Everything()
    result = evaluate(["evals/zoo.yaml", "evals/mine.yaml"], "mine:x", plugins=[plugin])
    assert plugin.heard is result
    zoo, mine = result.tasks
    assert (zoo.n_errored, zoo.n_wrong, zoo.n_correct) == (1, 1, 8)
    assert "pytest_evals_score: ValueError: I cannot" in zoo.records[7].error
    numbers = {metric.key: metric.estimate.value for metric in zoo.metrics}
    assert numbers["longest,none"] == 2
    (length,) = [m for m in mine.metrics if m.name == "length"]
    assert length.estimate.value == 2.0, "a0 to a9, all of them of two letters"
    outcomes = {one.gate.task: one.outcome.value for one in result.verdicts}
    assert outcomes["mine"] == "passed", "a gate on a number of a plugin"


def test_a_plugin_of_a_script_loads_custom_files(both):
    task = evaluate("evals/zoo.yaml", Partly()).tasks[0].task
    loads = SimpleNamespace(
        pytest_evals_load_tasks=lambda path: (
            [replace(task, name=path.stem, gates=())]
            if path.suffix == ".quiz"
            else None
        )
    )
    Path("evals/sums.quiz").write_text("")
    found = evaluate("evals", Partly(), plugins=[loads])
    assert [one.task.name for one in found.tasks] == ["quiz", "zoo", "sums"]
    found = evaluate("evals/sums.quiz", Partly(), plugins=[loads])
    assert [one.task.name for one in found.tasks] == ["sums"]


@pytest.mark.parametrize(
    ("plugin", "message"),
    [
        (Everything, "Everything is a class\n  fix: plugins=[Everything()]"),
        (object(), "has no hook\n  fix: pass an object or a module with one of"),
        (
            SimpleNamespace(pytest_evals_results=print),
            "unknown hook 'pytest_evals_results'; did you mean 'pytest_evals_result'?",
        ),
        (
            SimpleNamespace(pytest_evals_result=lambda run: None),
            "Argument(s) {'run'} are declared in the hookimpl but can not be found",
        ),
    ],
)
def test_a_plugin_that_would_never_be_called_is_refused(both, plugin, message):
    with pytest.raises(OptionError, match=re.escape(message)):
        evaluate("evals/zoo.yaml", Partly(), plugins=[plugin])


def here(call):
    return call()


def in_an_event_loop(call):
    async def cell():
        return call()

    return asyncio.run(cell())


def in_a_thread(call):
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(call).result()


class Breaking:
    name = "breaking"

    def answer(self, requests):
        raise ValueError("the weights are gone")


@pytest.mark.parametrize("run", [here, in_an_event_loop, in_a_thread])
@pytest.mark.parametrize(
    ("source", "model", "kind"),
    [
        ("evals/none.yaml", "scripted:first", TaskFileError),
        ("evals/quiz.yaml", "nothing:m", OptionError),
        ("evals/quiz.yaml", "openai:m,base_url=http://127.0.0.1:9/v1", ModelError),
        ("evals/quiz.yaml", Breaking(), ValueError),
    ],
)
def test_an_error_is_not_chained_to_an_unrelated_one(both, source, model, kind, run):
    with pytest.raises(kind) as caught:
        run(lambda: evaluate(source, model))
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None or caught.value.__suppress_context__


WRONG_ARGUMENTS = [
    (3, {}, "tasks is 3 (int); expected a path, or a Task"),
    ([], {}, "tasks is [] (list); expected a path"),
    (["a", {"task": "zoo"}], {}, "tasks[1] is {'task': 'zoo'} (dict); expected a path"),
    ("evals", {"model": Knowing}, "(type); expected a spec such as 'hf:gpt2', a"),
    ("evals", {"options": {"limit": 3}}, "expected options such as TaskOptions(limit"),
    ("evals", {"options": TaskOptions(limit="x")}, "options.limit is 'x' (str)"),
    ("evals", {"options": TaskOptions(num_fewshot=-1)}, "options.num_fewshot is -1"),
    ("evals", {"options": TaskOptions(seed=1.5)}, "options.seed is 1.5; expected an"),
    ("evals", {"gates": "zoo/exact_match >= 1"}, "(str); expected a list such as ["),
    ("evals", {"gates": {}}, "gates is {} (dict); expected a list such as ["),
    ("evals", {"gates": [7]}, "gates[0] is 7 (int); expected a str"),
    ("evals", {"judge": None}, "judge is None; expected a spec such as"),
    ("evals", {"folder": 5}, "folder is 5 (int); expected a path"),
    ("evals", {"folder": "x" * 300}, "(str): File name too long"),
    ("evals", {"folder": "a\0b"}, "(str): embedded null"),
    ("evals", {"compare": 4}, "compare is 4 (int); expected a baseline's name"),
    ("evals", {"save": b"x"}, "save is b'x' (bytes); expected a baseline's name"),
    ("evals", {"stop": 3}, "stop is 3 (int); expected 'off', 'curtail' or 'auto'"),
    ("evals", {"stop_error": "x"}, "stop_error is 'x' (str); expected a fraction"),
    ("evals", {"plugins": Knowing()}, "expected a list of objects or modules"),
]


@pytest.mark.parametrize(("source", "arguments", "message"), WRONG_ARGUMENTS)
def test_an_argument_of_a_wrong_type_is_an_error_with_the_expected_type(
    both, source, arguments, message
):
    with pytest.raises(OptionError, match=re.escape(message)):
        evaluate(source, **{"model": "scripted:echo", **arguments})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"limit": 3}, "unknown argument 'limit'\n  fix: options=TaskOptions(limit="),
        ({"tasks": "evals", "model": "scripted:echo", "gate": []}, "mean 'gates'?"),
        ({"tasks": "evals"}, "evaluate(): missing a required argument: 'model'"),
    ],
)
def test_an_argument_that_is_missing_or_unknown_is_named(arguments, message):
    with pytest.raises(TypeError, match=re.escape(message)):
        evaluate(**arguments)


def test_a_scorer_that_changes_its_row_changes_neither_records_nor_other_scorers():
    def changing(row, case):
        del row["target"]
        case.row["tags"].append("b")
        return True

    def reading(row):
        return row["target"] == "a" and row["tags"] == ["a"]

    rows = [{"prompt": "p", "target": "a", "tags": ["a"]}]
    result = evaluate(rows, lambda prompt: "a", score=[changing, reading])
    (record,) = result.tasks[0].records
    assert [one.value for one in record.scores] == [1, 1]
    assert record.doc.row["tags"] == ["a"]
    assert rows == [{"prompt": "p", "target": "a", "tags": ["a"]}]


def test_cases_and_scorers_may_be_partial_functions_and_callable_objects():
    class Equal:
        def __call__(self, answer, case):
            return answer == case.target

    def starts(answer, letter):
        return answer.startswith(letter)

    def cases(target):
        yield case("p", target=target)

    done = evaluate(
        evals(partial(cases, "a"), score=[Equal(), partial(starts, letter="a")]),
        lambda prompt: "a",
    )
    assert done.tasks[0].records[0].error == ""
    assert [one.value for one in done.tasks[0].records[0].scores] == [1, 1]
