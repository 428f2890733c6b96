"""The fixture ``evals``, and rows and evals in ``evaluate()``."""

import json
from functools import partial
from itertools import count

import pytest

from pytest_evals import (
    OptionError,
    TaskFileError,
    TaskOptions,
    case,
    contains,
    evaluate,
    exact,
)
from pytest_evals import eval as make_eval
from pytest_evals import (
    json as is_json,
)
from pytest_evals.run.notebook import progress

ROWS = [
    {"q": "How do I pay?", "answer": "card", "id": "pay"},
    {"q": "Where is the door?", "answer": "window", "id": "door"},
]
TEST = f"""
import pytest_evals as ev

ROWS = {ROWS!r}

def test_it(evals):
    result = evals(
        ROWS, prompt="{{{{q}}}}", target="answer", score=[ev.contains()],
        gates=["contains >= GATE"]MODEL
    )
    (frame,) = [result.to_pandas("documents")]
    assert list(frame["prompt"]) == ["How do I pay?", "Where is the door?"]
"""


@pytest.fixture
def answers(pytester):
    pytester.makeini("[pytest]\n")
    rules = [{"prompt": "pay?", "text": "By card."}, {"text": "There."}]
    lines = "\n".join(map(json.dumps, rules))
    (pytester.path / "answers.jsonl").write_text(lines, "utf-8")
    return "scripted:answers.jsonl"


def of(gate="0.5", model=""):
    return TEST.replace("GATE", gate).replace("MODEL", model)


def test_a_test_runs_a_small_set_with_the_model_of_the_session(pytester, answers):
    pytester.makepyfile(of())
    assert pytester.runpytest(f"--model={answers}").parseoutcomes() == {"passed": 1}


def test_a_test_fails_with_the_block_of_its_gate(pytester, answers):
    pytester.makepyfile(of("0.9"))
    done = pytester.runpytest(f"--model={answers}")
    assert done.parseoutcomes() == {"failed": 1}
    done.stdout.fnmatch_lines(
        [
            "rows: contains >= 0.9",
            "contains 0.500 is not >= 0.9*",
            "*rows?door?*",
            "*answer*There.",
        ]
    )
    done.stdout.no_fnmatch_line("*Traceback*")
    done.stdout.no_fnmatch_line("*run again*")


def test_without_a_model_one_line_states_how_to_set_it(pytester):
    pytester.makeini("[pytest]\n")
    pytester.makepyfile(of())
    done = pytester.runpytest()
    done.stdout.fnmatch_lines(
        [
            "evals: no model is set; pass model=*, --model=SPEC, or set evals_model in "
            "the ini file"
        ]
    )


def test_a_model_of_the_test_or_of_the_conftest_answers(pytester, answers):
    pytester.makepyfile(of(model=f", model={answers!r}"))
    assert pytester.runpytest().parseoutcomes() == {"passed": 1}
    pytester.makepyfile(of("0.4"))
    pytester.makeconftest("""
import pytest
from pytest_evals import Response

class Mine:
    name = "mine"
    def answer(self, requests):
        return ((n, Response(text="card")) for n, _ in enumerate(requests))

@pytest.fixture(scope="session")
def eval_model():
    return Mine()
""")
    assert pytester.runpytest().parseoutcomes() == {"passed": 1}


def test_an_exception_of_a_scorer_fails_the_test_with_its_line(pytester, answers):
    pytester.makepyfile("""
def broken(answer, case):
    return {}[answer]

def test_it(evals):
    evals([{"prompt": "How do I pay?"}], score=broken)
""")
    done = pytester.runpytest(f"--model={answers}")
    done.stdout.fnmatch_lines(["*scorer 'broken': KeyError: 'By card.' (*.py:2)"])


def test_evaluate_takes_rows_cases_and_evals(pytester, answers):
    rows = evaluate(
        ROWS,
        answers,
        prompt="{{q}}",
        target="answer",
        score=contains(),
        gates=["contains >= 1"],
    )
    assert [one.outcome.value for one in rows.verdicts] == ["failed"]
    cases = evaluate([case("How do I pay?", "By card.")], answers)
    assert cases.to_pandas()["value"].tolist() == [1.0]

    @make_eval(score=[exact(), is_json()], gates=["exact >= 0.5"])
    def two():
        yield case("How do I pay?", "By card.", id="pay")
        yield case("Where?", "Here.")

    result = evaluate([two], answers)
    assert [one.is_red for one in result.verdicts] == [False]
    assert [one.doc.id for one in result.tasks[0].records] == ["pay", "1"]


def test_frames_of_documents_have_prompt_target_response_row_and_explanation(
    pytester, answers
):
    result = evaluate(ROWS, answers, prompt="{{q}}", target="answer", score="contains")
    first, second = result.to_pandas("documents").to_dict("records")
    assert first["response"] == "By card."
    assert first["target"] == "card"
    assert first["row"] == ROWS[0]
    assert second["explanation"] == "does not contain 'window'"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"tasks": [{"q": 1}]}, "row 0 has no prompt"),
        ({"tasks": [{"q": 1}], "prompt": "{{z}}"}, "'z'"),
        ({"tasks": ROWS, "prompt": "{{q}}", "score": "exct"}, "did you mean 'exact'"),
        ({"tasks": ROWS, "prompt": "{{q}}", "gates": ["f1 >= 1"]}, "unknown metric"),
    ],
)
def test_invalid_rows_are_refused_with_the_line_of_the_call(
    pytester, answers, arguments, message
):
    with pytest.raises((TaskFileError, OptionError)) as error:
        evaluate(model=answers, **arguments)
    assert message in str(error.value)
    assert "test_unit_evals.py:" in str(error.value)


def test_the_repr_of_options_contains_only_those_that_are_set():
    assert repr(TaskOptions()) == "TaskOptions()"
    assert repr(TaskOptions(limit=3, chat=True)) == "TaskOptions(limit=3, chat=True)"


def test_notebooks_colour_failed_gates_and_show_progress(
    pytester, answers, monkeypatch
):
    scored = {"prompt": "{{q}}", "target": "answer", "score": "contains"}
    red = evaluate(ROWS, answers, **scored, gates=["contains >= 0.6"])
    green = evaluate(ROWS, answers, **scored, gates=["contains >= 0.5"])
    assert red._repr_html_().count("color: #8a1c14") == 1
    assert "color:" not in green._repr_html_()
    shown = []
    tick = progress(partial(next, count(1)), 3, shown.append)
    tick(), tick(), tick()  # at once, so only the last one is shown
    assert shown == ["3 responses, 3 documents"]
    monkeypatch.setattr("pytest_evals.run.notebook._EVERY_S", 0)
    tick = progress(partial(next, count(1)), 3, shown.append)
    tick(), tick()
    assert shown[1:] == ["1 responses, 3 documents", "2 responses, 3 documents"]


APPLICATION = """
import pytest_evals as ev

def respond(prompt):
    return "by card" if "pay" in prompt else "next to the window"

def test_it(evals):
    rows = [{"q": "How do I pay?", "target": "card"}]
    evals(rows, prompt="{{q}}", score="contains", gates=["contains >= 1"],
          model=respond)
"""


def test_a_function_of_the_application_is_a_model(pytester):
    pytester.makepyfile(APPLICATION)
    assert pytester.runpytest_inprocess().parseoutcomes() == {"passed": 1}

    async def respond(prompt):
        return "window" if "door" in prompt else "cash"

    found = evaluate(ROWS, respond, prompt="{{q}}", target="answer", score=[exact()])
    assert found.tasks[0].metrics[0].estimate.value == 0.5
    with pytest.raises(OptionError, match="a function of your application"):
        evaluate(ROWS, dict, prompt="{{q}}")


def test_a_test_scores_refusals_as_answers_if_it_is_asked_to(pytester):
    pytester.makepyfile(
        """
        from pytest_evals import Response

        def test_it(evals):
            refused = Response(text="no", finish="refused")
            rows = [{"prompt": "a", "target": "no"}]
            evals(rows, refusals="answer", gates="exact >= 1",
                  model=lambda prompt: refused)
        """
    )
    assert pytester.runpytest_inprocess().parseoutcomes() == {"passed": 1}


@pytest.mark.parametrize(
    ("call", "line"),
    [
        ("[], prompt='x'", "evals: tasks is [[]] (list); expected *or a list of rows"),
        ("[{'w': 1}], prompt='{{z}}'", "*prompt uses 'z', which is not a column"),
        ("[{'prompt': 'a'}], refusals='anser'", "*refusals*'error' or 'answer'*"),
        ("[{'prompt': 'a'}], score='exat'", "*unknown scorer 'exat'; did you mean*"),
    ],
)
def test_invalid_arguments_are_reported_once(pytester, call, line):
    pytester.makepyfile(f"def test_it(evals):\n    evals({call})")
    done = pytester.runpytest_inprocess("--model=scripted:echo")
    assert done.parseoutcomes() == {"failed": 1}
    done.stdout.fnmatch_lines([line])
    done.stdout.no_fnmatch_line("*another exception*")


@pytest.mark.slow
def test_several_sets_run_in_parametrised_async_and_class_tests(pytester):
    pytester.makepyfile(
        """
        import asyncio, pytest

        ROWS = [{"w": "a", "target": "a"}, {"w": "b", "target": "b"}]

        @pytest.mark.parametrize("prompt", ["{{w}}", "say {{w}}"])
        def test_prompts(evals, prompt):
            gates = ["contains >= 1"]
            result = evals(ROWS, prompt=prompt, score="contains", gates=gates)
            assert len(result.tasks[0].records) == 2

        class TestBot:
            def test_twice(self, evals):
                first = evals(ROWS, prompt="{{w}}", gates="exact >= 1")
                second = evals(ROWS, prompt="x{{w}}", gates="exact <= 0.5")
                values = [one.verdicts[0].value for one in (first, second)]
                assert values == [1, 0]

        def test_in_an_event_loop(evals):
            async def run():
                return evals(ROWS, prompt="{{w}}", gates="exact >= 1")

            assert asyncio.run(run()).verdicts[0].outcome.value == "passed"
        """
    )
    done = pytester.runpytest("--model=scripted:echo", "-n2")
    assert done.parseoutcomes() == {"passed": 4}
