"""Several models in one session: ``--model=A --model=B``."""

from __future__ import annotations

import json
import os
import shlex
import shutil
from itertools import permutations

import pytest

MODELS = """
def adds(prompt):
    first, second = prompt.split("+")
    return str(int(first) + int(second))

def repeats(prompt):
    return prompt.split("+")[0]

adds.version = repeats.version = "1"
"""
GOOD, BAD = "--model=good=python:apps:adds", "--model=bad=python:apps:repeats"
ROWS = [("a", "1+1", 2), ("b", "2+2", 4), ("c", "0+0", 0)]


@pytest.fixture
def sums(pytester):
    """An eval ``sums`` of three documents: one model answers all of them correctly, the
    other one only the document ``c``."""
    pytester.makeini("[pytest]\n")
    pytester.makepyfile(apps=MODELS)
    pytester.syspathinsert()
    write(pytester, "sums")
    return pytester


def write(pytester, name, gates="[exact >= 0.5]"):
    rows = "".join(f'  - {{id: {i}, q: "{q}", a: "{a}"}}\n' for i, q, a in ROWS)
    text = f'prompt: "{{{{q}}}}"\ntarget: a\nrows:\n{rows}gates: {gates}\n'
    (pytester.path / f"{name}.yaml").write_text(text)


def ids(pytester, *arguments):
    result = pytester.runpytest("--collect-only", "-q", *arguments)
    return [line for line in result.outlines if "::" in line]


def runs(pytester):
    paths = sorted(pytester.path.glob(".evals/runs/*/results.json"))
    return [json.loads(path.read_text()) for path in paths]


def test_each_model_is_a_parameter_of_documents_and_gates(sums):
    assert ids(sums, GOOD, "--model=python:apps:repeats") == [
        "sums.yaml::sums[good-a]",
        "sums.yaml::sums[apps:repeats-a]",
        "sums.yaml::sums[good-b]",
        "sums.yaml::sums[good-c]",
        "sums.yaml::sums[apps:repeats-b]",
        "sums.yaml::sums[apps:repeats-c]",
        "sums.yaml::sums::exact[good]",
        "sums.yaml::sums::exact[apps:repeats]",
    ]


def test_one_model_keeps_the_ids_without_a_model(sums):
    assert ids(sums, GOOD) == ids(sums, "--model=python:apps:adds")
    assert ids(sums, GOOD)[0] == "sums.yaml::sums[a]"


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["alone", "-n 2"])
def test_gates_are_judged_for_each_model(sums, workers):
    result = sums.runpytest(GOOD, BAD, *workers)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        [
            "*= evals: good =*",
            "sums*exact   1.000  >= 0.5  passed",
            "*= evals: bad =*",
            "sums*exact   0.333  >= 0.5  FAILED",
            "FAILED sums.yaml::sums::exact?bad? *",
        ]
    )
    values = {run["model_name"]: run["results"]["sums"] for run in runs(sums)}
    assert values["apps:adds"]["exact,none"] == 1
    assert values["apps:repeats"]["exact,none"] == pytest.approx(1 / 3)


@pytest.mark.slow
def test_the_results_of_a_model_do_not_depend_on_the_others(sums):
    def written():
        (run,) = (r for r in runs(sums) if r["model_name"] == "apps:adds")
        for path in sums.path.glob(".evals/runs/*/*"):
            path.unlink()
        varying = ("date", "total_evaluation_time_seconds", "model_seconds")
        varying += ("responses", "exit_code", "latency", "latencies")
        run["model_info"].pop("latency")
        return {key: run[key] for key in run if key not in varying}

    assert sums.runpytest("--model=python:apps:adds", "--evals-cache=off").ret == 0
    alone = written()
    sums.runpytest("--model=python:apps:adds", BAD, "--evals-cache=off")
    beside = written()
    assert {k: v for k, v in alone.items() if beside.get(k) != v} == {}


def test_k_selects_a_model_and_reports_only_that_one(sums):
    result = sums.runpytest(GOOD, BAD, "-k", "good")
    result.assert_outcomes(passed=4, deselected=4)
    result.stdout.no_fnmatch_line("*evals: bad*")
    assert len(runs(sums)) == 1


def test_deselect_selects_a_model_by_the_start_of_its_ids(sums):
    result = sums.runpytest(
        GOOD,
        BAD,
        "--deselect=sums.yaml::sums[bad-",
        "--deselect=sums.yaml::sums::exact[bad]",
    )
    result.assert_outcomes(passed=4, deselected=4)


TARGETS = {"all": range(10), "even": (0, 2, 4), "high": (7, 8, 9)}


@pytest.mark.slow
def test_ten_models_answer_three_tasks_in_every_selection(pytester):
    """The model ``m3`` always answers 3."""
    pytester.makeini("[pytest]\n")
    for n in range(10):
        (pytester.path / f"m{n}.jsonl").write_text(json.dumps({"text": str(n)}))
    for task, targets in TARGETS.items():
        rows = "".join(f"  - {{id: d{n}, q: x{n}, target: {n}}}\n" for n in targets)
        text = f'prompt: "{task} {{{{q}}}}"\nrows:\n{rows}gates: [exact >= 0.01]\n'
        (pytester.path / f"{task}.yaml").write_text(text)
    models = [f"--model=m{n}=scripted:m{n}.jsonl" for n in range(10)]
    documents = {
        f"{task}.yaml::{task}[m{n}-d{i}]": n == i
        for task, targets in TARGETS.items()
        for n in range(10)
        for i in targets
    }
    gates = {
        f"{task}.yaml::{task}::exact[m{n}]": n in targets
        for task, targets in TARGETS.items()
        for n in range(10)
    }
    assert sorted(ids(pytester, *models)) == sorted([*documents, *gates])

    def check(select, *arguments):
        shown = pytester.runpytest(*models, "-p", "no:randomly", *arguments)
        chosen = [ok for one, ok in documents.items() if select(one)]
        judged = [ok for one, ok in gates.items() if select(one)]
        found = shown.parseoutcomes()
        assert found.get("wrong", 0) == chosen.count(False)
        assert found.get("failed", 0) == judged.count(False)
        right = chosen.count(True) + judged.count(True)
        assert found.get("passed", 0) == right

    check(lambda one: True)
    check(lambda one: True, "-n", "2")
    failed = [one for one, ok in gates.items() if not ok]
    pairs = [(one[: one.index("::exact")], one[-3:-1]) for one in failed]
    again = (*failed, *(f"{task}[{model}-" for task, model in pairs))
    check(lambda one: one.startswith(again), "--lf", "-n", "2")
    check(lambda one: "high" in one and "m7" in one, "-k", "high and m7")
    lost = [f"even.yaml::even[m{n}-" for n in range(10)]
    lost += ["even.yaml::even::", "high.yaml::high[m8-", "high.yaml::high::exact[m8]"]
    dropped = [f"--deselect={one}" for one in lost]
    check(lambda one: not one.startswith(tuple(lost)), *dropped)


@pytest.mark.slow
def test_the_commands_of_a_failed_gate_name_its_model(sums):
    result = sums.runpytest(GOOD, BAD)
    result.stdout.fnmatch_lines(["    sums?bad-a?", "*pytest *::sums?bad-a?' -v"])
    (command,) = (line for line in result.outlines if line.endswith("]' -v"))
    again = sums.runpytest(GOOD, BAD, *shlex.split(command)[1:])
    again.stdout.fnmatch_lines(["*sums.yaml::sums?bad-a? WRONG*"])


@pytest.mark.slow
def test_the_command_of_a_failed_gate_runs_only_its_model(sums):
    result = sums.runpytest(GOOD, BAD)
    (command,) = (one for one in result.outlines if one.endswith("::exact[bad]'"))
    again = sums.runpytest(GOOD, BAD, "-v", *shlex.split(command)[1:])
    again.stdout.fnmatch_lines(["*::sums?bad-a? WRONG*", "*::exact?bad? FAILED*"])
    again.stdout.no_fnmatch_line("*sums?good*")


@pytest.mark.slow
def test_last_failed_runs_the_failed_gate_with_the_documents_of_its_model(sums):
    sums.runpytest(GOOD, BAD)
    result = sums.runpytest(GOOD, BAD, "--lf", "-v")
    result.stdout.fnmatch_lines(["*::sums?bad-a?*", "*::exact?bad? FAILED*"])
    result.stdout.no_fnmatch_line("*::sums?good-a?*")


@pytest.mark.slow
def test_the_command_line_replaces_the_models_of_the_ini_file_and_of_addopts(
    sums, monkeypatch
):
    both = "\n  python:apps:adds\n  bad=python:apps:repeats"
    sums.makeini(f"[pytest]\nevals_model = {both}\n")
    assert len(ids(sums)) == 8
    assert len(ids(sums, BAD)) == 4
    sums.makeini(f"[pytest]\naddopts = {GOOD} --model python:apps:repeats\n")
    assert len(ids(sums)) == 8
    assert len(ids(sums, "--evals-model", "python:apps:adds")) == 4
    monkeypatch.setenv("PYTEST_ADDOPTS", BAD)
    assert len(ids(sums)) == 4
    assert len(ids(sums, GOOD, BAD)) == 8


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        ("python:apps:adds", "python:apps:adds", "*python:apps:adds is given twice*"),
        ("a=python:apps:adds", "a=python:apps:repeats", "*two models are called 'a'*"),
        (
            "a/b=python:apps:adds",
            "python:apps:adds",
            "*'a/b' is not a valid name*",
        ),
        ("hf:x/gpt2", "openai:gpt2", "*two models are called 'gpt2'*"),
    ],
)
def test_two_models_with_one_name_are_refused(sums, first, second, message):
    result = sums.runpytest(f"--model={first}", f"--model={second}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([message])


def test_names_of_hub_models_are_their_last_part_and_their_arguments(sums):
    found = ids(sums, "--model=hf:org/gpt2", "--model=hf:org/gpt2,dtype=float16")
    assert found[0] == "sums.yaml::sums[gpt2-a]"
    assert found[3] == "sums.yaml::sums[gpt2,dtype=float16-a]"


@pytest.mark.slow
def test_another_model_renames_none_in_any_order(sums):
    three = [GOOD, "--model=hf:a/x", "--model=hf:b/x,dtype=float16"]
    two = {*ids(sums, *three[:2])}
    for order in permutations(three):
        found = ids(sums, *order)
        assert len({*found}) == len(found) == 12
        assert two < {*found}


def test_a_gate_names_its_model(sums):
    write(sums, "sums", "[{metric: exact, min: 0.9, model: good}]")
    result = sums.runpytest(GOOD, BAD, "-v")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["*::exact?good? PASSED*", "*::exact?bad? SKIPPED*"])


def test_a_fixture_that_overrides_the_model_is_refused_with_several(sums):
    sums.makeconftest(
        """
        import pytest

        @pytest.fixture(scope="session")
        def eval_model():
            raise AssertionError
        """
    )
    result = sums.runpytest(GOOD, BAD)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        ["*conftest.py:*the fixture eval_model is one model*", "*fix: *"]
    )


@pytest.mark.slow
def test_tests_of_models_and_results_run_once_for_each_model(sums):
    sums.makepyfile(
        test_more="""
        def test_results(eval_results):
            assert eval_results("sums")["exact"].value > 0.3
            assert eval_results("sums", model="good")["exact"].value == 1

        def test_model(eval_model):
            assert eval_model.name.startswith("python:apps:")

        def test_rows(evals):
            evals([{"prompt": "4+0", "target": "4"}])

        def test_other():
            pass
        """
    )
    result = sums.runpytest(GOOD, BAD, "-rA")
    result.stdout.fnmatch_lines_random(
        [
            f"PASSED test_more.py::test_{name}?{model}?"
            for name in ("results", "model", "rows")
            for model in ("good", "bad")
        ]
    )
    result.stdout.fnmatch_lines(["PASSED test_more.py::test_other"])


def test_an_option_of_one_model_is_refused_with_several(sums):
    result = sums.runpytest(GOOD, BAD, "--evals-repeatability=2")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        ["*--evals-repeatability measures one model*", "*fix: measure each*"]
    )


def test_an_invalid_file_is_reported_once(sums):
    (sums.path / "sums.yaml").write_text('prompt: "{{q}}"\nrows: 7\n')
    result = sums.runpytest(GOOD, BAD)
    result.assert_outcomes(errors=1)


def test_members_of_groups_run_with_each_model(sums):
    sums.makefile(".yaml", data="")
    (sums.path / "d.jsonl").write_text('{"id": "x", "q": "1+1", "a": "2"}\n')
    (sums.path / "one.yaml").write_text(
        "task: one\ndataset_path: json\ndataset_kwargs: {data_files: {test: d.jsonl}}\n"
        "test_split: test\noutput_type: generate_until\n"
        "doc_to_text: '{{q}}'\ndoc_to_target: a\nmetric_list: [{metric: exact_match}]\n"
    )
    (sums.path / "all.yaml").write_text(
        "group: all\ntask: [one]\naggregate_metric_list: [{metric: exact_match}]\n"
        "metadata: {gates: [exact_match >= 0.5]}\n"
    )
    found = ids(sums, GOOD, BAD, "all.yaml", "one.yaml")
    assert found == [
        "one.yaml::one[good-x]",
        "one.yaml::one[bad-x]",
        "all.yaml::all::exact_match[good]",
        "all.yaml::all::exact_match[bad]",
    ]


@pytest.mark.slow
def test_requests_of_served_models_are_in_flight_at_the_same_time(pytester):
    pytester.makeini("[pytest]\n")
    pytester.syspathinsert()
    pytester.makepyfile(
        slow="""
        import asyncio
        from pathlib import Path

        async def reply(name):
            with Path("log").open("a") as stream:
                stream.write(f"{name}\\n")
            await asyncio.sleep(0.05)
            return "2"

        async def one(prompt):
            return await reply("one")

        async def two(prompt):
            return await reply("two")
        """
    )
    rows = "".join(f"  - {{id: d{i}, q: {i}}}\n" for i in range(12))
    text = f'prompt: "{{{{q}}}}"\ntarget: "2"\nrows:\n{rows}'
    (pytester.path / "twos.yaml").write_text(text)
    models = [f"--model=python:slow:{name},concurrency=2" for name in ("one", "two")]
    result = pytester.runpytest(*models)
    result.assert_outcomes(passed=24)
    log = (pytester.path / "log").read_text().split()
    assert log.count("one") == log.count("two") == 12
    assert log.index("two") < len(log) - log[::-1].index("one") - 1


def test_names_with_which_two_documents_have_one_id_are_refused(sums):
    rows = '  - {id: x-a, q: "1+1", a: "2"}\n  - {id: a, q: "1+1", a: "2"}\n'
    (sums.path / "sums.yaml").write_text(
        f'prompt: "{{{{q}}}}"\ntarget: a\nrows:\n{rows}'
    )
    models = ("--model=good=python:apps:adds", "--model=good-x=python:apps:repeats")
    result = sums.runpytest(*models)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*both have a document sums.yaml::sums?good-x-a?"])


@pytest.mark.slow
def test_models_with_the_same_tokenizer_share_encoded_requests(
    pytester, tiny_model_path
):
    from safetensors.torch import load_file, save_file

    other = pytester.path / "other"
    shutil.copytree(tiny_model_path, other)
    weights = load_file(other / "model.safetensors")
    weights = {name: value * 1.01 for name, value in weights.items()}
    save_file(weights, other / "model.safetensors", {"format": "pt"})
    rows = [json.dumps({"q": f"question {i}: {'cat ' * 99}"}) for i in range(300)]
    (pytester.path / "rows.jsonl").write_text("\n".join(rows))
    (pytester.path / "quiz.yaml").write_text(
        "dataset: rows.jsonl\nprompt: '{{q}}'\ntarget: x\nscore: exact\n"
        "generation: {max_tokens: 1}\n"
    )
    kept = pytester.path / ".evals" / "cache" / "encoded"
    models = [f"--model=a=hf:{tiny_model_path}", f"--model=b=hf:{other}"]
    pytester.runpytest_inprocess("quiz.yaml", models[0]).assert_outcomes(failed=0)
    files = [*kept.iterdir()]
    assert files
    for file in files:
        os.utime(file, (1, 1))
    pytester.runpytest_inprocess("quiz.yaml", *models).assert_outcomes(failed=0)
    assert sorted(kept.iterdir()) == sorted(files)
    assert all(file.stat().st_mtime > 1 for file in files)  # a's responses are stored
