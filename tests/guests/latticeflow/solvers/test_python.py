"""Python in solvers: rounds of a coroutine, and valid return values."""

import gc
import random
from textwrap import indent

import pytest

from pytest_evals.errors import DocumentError
from pytest_evals.guests.latticeflow.prompts.output import SolverOutput
from pytest_evals.guests.latticeflow.solvers.python import Row


def solver(code, more=""):
    return f"type: python\nrun_solver_snippet: |\n{indent(code, '  ')}\n{more}"


def echo(_model, prompt):
    return prompt[-1].content.upper()


def texts(output):
    return [m.content for m in output.messages]


def test_the_documented_solver_runs(solve):
    code = """
async def run_solver(sample, model, trace):
    trace.append_system_message("s")
    trace.append_user_message(sample["q"])
    trace.add_model_response(await model.predict(trace.items))
    return trace
"""
    output, rounds = solve(solver(code), {"q": "hi"}, echo)
    assert texts(output) == ["s", "hi", "HI"]
    assert len(rounds) == 1
    assert str(output.output) == "HI"


def test_predictions_that_are_awaited_together_are_one_round(solve):
    code = """
import asyncio

async def run_solver(sample, model, trace):
    async def ask(word):
        await asyncio.sleep(0.001)
        trace.append_user_message(word)
        return await model.predict([{"role": "user", "content": word}])
    first, second = await asyncio.gather(ask("a"), ask("b"))
    trace.append_user_message(first.text + second.text)
    trace.add_model_response(await model.predict(trace.items))
"""
    output, rounds = solve(solver(code), {}, echo)
    assert [len(one) for one in rounds] == [2, 1]
    assert texts(output)[-2:] == ["AB", "AB"]


def test_a_timer_is_not_waited_for_while_answers_are_lacking(solve):
    code = """
import asyncio

async def run_solver(sample, model, trace):
    ask = model.predict([{"role": "user", "content": "a"}])
    trace.add_model_response(await asyncio.wait_for(ask, 600))
"""
    output, _ = solve(solver(code), {}, echo)
    assert texts(output) == ["A"]


def test_a_whole_model_input_and_arguments_are_passed_on(read):
    code = """
async def run_solver(sample, model, trace):
    given = {"messages": [{"role": "user", "content": "a"}], "temperature": 0.5}
    await model.predict(given, max_tokens=5)
"""

    parts, _ = read(solver(code))
    (sent,) = next(parts.solve({}, 0))
    assert (sent.request.temperature, sent.request.max_tokens) == (0.5, 5)


def test_draws_of_random_are_the_same_each_time(solve):
    code = """
import random

async def run_solver(sample, model, trace):
    for _ in range(3):
        trace.append_user_message(str(random.random()))
        trace.add_model_response(await model.predict(trace.items))
"""
    state = random.getstate()
    output, rounds = solve(solver(code), {"q": 1}, echo)
    assert random.getstate() == state
    assert len(rounds) == 3
    assert texts(solve(solver(code), {"q": 1}, echo)[0]) == texts(output)
    assert texts(solve(solver(code), {"q": 2}, echo)[0]) != texts(output)
    assert texts(solve(solver(code), {"q": 1}, echo, trial=1)[0]) != texts(output)


def test_the_same_question_twice_is_two_requests(read):
    """Greedy ones too: models know whether they are deterministic."""

    from pytest_evals.guests.latticeflow.solvers.model_client import ModelClient

    code = """
import asyncio

async def run_solver(sample, model, trace):
    ask = [{"role": "user", "content": "a"}]
    await asyncio.gather(model.predict(ask), model.predict(ask))
"""
    for heat in (1.0, 0.0):
        line = ModelClient(temperature=heat)
        parts, _ = read(solver(code), lambda _key, line=line: line)
        sent = next(parts.solve({}, 0))
        assert (len(sent), len(set(sent))) == (2, 2)


@pytest.mark.parametrize(
    "code",
    [
        "def run_solver(sample, model, trace):\n    trace.append_user_message('a')",
        "async def run_solver(s, m, t):\n    t.append_user_message('a')\n"
        "    return t.trace",
        "from latticeflow.core.dtypes import SolverOutput, Trace\n"
        "from latticeflow.core.dtypes import Message, MessageRole\n"
        "def run_solver(sample, model, trace):\n"
        "    item = Message(role=MessageRole.USER, content='a')\n"
        "    return SolverOutput(trace=Trace.from_items([item]))",
        "import latticeflow.assessment.dtypes as d\n"
        "def run_solver(sample, model, trace):\n"
        "    from latticeflow.core import dtypes\n"
        "    item = d.InputTextContent(text='a')\n"
        "    trace.append(dtypes.Message(role='user', content=[item]))",
    ],
    ids=["plain, returns nothing", "trace", "output", "old path"],
)
def test_a_solver_may_be_written_in_any_of_these_ways(solve, code):
    output, rounds = solve(solver(code), {}, echo)
    assert (texts(output), rounds) == (["a"], [])


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (
            "async def run_solver(s, m, t):\n    return 3",
            "t.yaml:3: run_solver must return the trace, not int\n  fix: return trace",
        ),
        (
            "async def run_solver(s, m, t):\n    t.add_model_response(m.predict([]))",
            "not coroutine; await it",
        ),
        (
            "async def run_solver(s, m, t):\n    return s['x']",
            "t.yaml:3: run_solver: KeyError: 'x' (./t.yaml:4)",
        ),
        (
            "from latticeflow.core.dtypes import Tracer\ndef run_solver(s, m, t): pass",
            "ImportError: cannot import name 'Tracer'",
        ),
        (
            "import latticeflow.core.types\ndef run_solver(s, m, t): pass",
            "No module named 'latticeflow.core.types'; did you mean "
            "'latticeflow.core.dtypes'?",
        ),
    ],
)
@pytest.mark.filterwarnings("ignore:coroutine '.*predict' was never awaited")
def test_errors_of_a_solver_have_its_line(solve, tmp_path, code, message):
    with pytest.raises(DocumentError) as caught:
        solve(solver(code), {}, echo)
    assert message in str(caught.value).replace(str(tmp_path), ".")


def test_a_solver_cannot_change_its_sample(solve):
    sample = {"l": []}
    solve(solver("def run_solver(s, m, t):\n    s['l'].append(1)"), sample, echo)
    assert sample == {"l": []}


POST = """
postprocessor:
  type: python
  postprocess_snippet: |
    def postprocess(sample, solver_output):
        %s
"""


def rows(read, body):
    code = solver("def run_solver(s, m, t): pass", POST % body)
    parts, problems = read(code)
    assert problems == []
    return parts.postprocess({"q": 1}, SolverOutput(trace=[]))


def test_an_output_may_become_any_number_of_rows(read):
    body = 'return [({**sample, "n": n}, solver_output) for n in range(2)]'
    assert [row.sample for row in rows(read, body)] == [
        {"q": 1, "n": 0},
        {"q": 1, "n": 1},
    ]
    assert all(isinstance(row, Row) for row in rows(read, body))
    assert rows(read, "return []") == ()


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("return 3", "must return a list, not 3"),
        ("return [3]", "must return pairs of sample and output, not 3"),
        ("return [(3, solver_output)]", "must return a mapping as sample, not 3"),
        ("return [(sample, 3)]", "must return a valid output: not a trace: 3"),
    ],
)
def test_a_postprocessor_with_an_invalid_return_value_is_reported(read, body, message):
    with pytest.raises(DocumentError, match=message):
        rows(read, body)


def test_a_request_that_is_not_awaited_is_not_sent_and_gives_no_warning(solve):
    code = """
import asyncio

async def run_solver(sample, model, trace):
    model.predict([{"role": "user", "content": "never"}])
    task = asyncio.create_task(model.predict([{"role": "user", "content": "a"}]))
    trace.add_model_response(await task)
"""
    output, rounds = solve(solver(code), {}, echo)
    gc.collect()
    assert texts(output) == ["A"]
    assert [len(one) for one in rounds] == [1]


def test_a_solver_that_depends_on_time_is_an_error_and_not_an_answer(solve):
    code = """
import time

async def run_solver(sample, model, trace):
    for _ in range(2):
        trace.append_user_message(str(time.perf_counter_ns()))
        trace.add_model_response(await model.predict(trace.items))
"""
    with pytest.raises(DocumentError, match="independent of time and random numbers"):
        solve(solver(code), {}, echo)
