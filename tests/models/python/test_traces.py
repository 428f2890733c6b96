"""Calls, usage and contexts from OpenTelemetry's spans, with the real SDK."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_evals import evaluate
from pytest_evals.models.python.traces import Traces

trace = pytest.importorskip("opentelemetry.trace")
pytest.importorskip("opentelemetry.sdk")

APP = """
import asyncio, json
from concurrent.futures import ThreadPoolExecutor

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

exporter = InMemorySpanExporter()
if not isinstance(trace.get_tracer_provider(), TracerProvider):
    trace.set_tracer_provider(TracerProvider())
trace.get_tracer_provider().add_span_processor(SimpleSpanProcessor(exporter))
tracer = trace.get_tracer("shop")


def span(name, **attributes):
    names = {k.replace("__", "."): v for k, v in attributes.items()}
    return tracer.start_as_current_span(name, attributes=names)


def work(prompt):
    order = prompt.rsplit(" ", 1)[-1]
    with span("invoke_agent shop", gen_ai__operation__name="invoke_agent",
              gen_ai__agent__name="shop", gen_ai__aggregated_usage__input_tokens=99):
        for _ in range(2):
            with span("chat m", gen_ai__operation__name="chat",
                      gen_ai__usage__input_tokens=7, gen_ai__usage__output_tokens=3):
                pass
        with span("retrieval faq", gen_ai__operation__name="retrieval",
                  gen_ai__retrieval__documents=json.dumps(
                      [{"id": "f1", "score": 0.5, "text": "30 days"}])):
            pass
        with span("execute_tool refund", gen_ai__operation__name="execute_tool",
                  gen_ai__tool__name="refund", gen_ai__tool__call__id="c1",
                  gen_ai__tool__call__arguments=json.dumps({"order_id": order})) as one:
            with span("execute_tool log", gen_ai__operation__name="execute_tool",
                      gen_ai__tool__name="log"):
                pass
            one.set_attribute("gen_ai.tool.call.result", "done")
    return "Refunded."


def respond(prompt):
    return work(prompt)


async def later(prompt):
    await asyncio.sleep(0)
    return work(prompt)


def in_threads(prompt):
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work, prompt).result()


def silent(prompt):
    return "Refunded."
"""
EVAL = """\
traces: true
prompt: "Refund {{id}}"
rows: [{id: A-1}, {id: A-2}, {id: A-3}, {id: A-4}]
score:
  - called: {refund: {order_id: "{{id}}"}}
  - {max_calls: 2}
"""


@pytest.fixture
def shop(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makepyfile(shop=APP)
    Path("agent.yaml").write_text(EVAL)
    return pytester


def run(shop: pytest.Pytester, function: str, *arguments: str) -> pytest.RunResult:
    return shop.runpytest_subprocess(f"--model=python:shop:{function}", *arguments)


def rows(shop: pytest.Pytester) -> list[dict]:
    (path,) = shop.path.glob(".evals/runs/*/samples_agent.jsonl")
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.slow
@pytest.mark.parametrize("function", ["respond", "later"])
def test_concurrent_cases_have_their_own_calls_and_usage(shop, function):
    run(shop, function).assert_outcomes(passed=4)
    for row in rows(shop):
        (calls,), (usage,), (contexts,) = row["calls"], row["usage"], row["contexts"]
        assert calls[0] == {
            "name": "refund",
            "arguments": {"order_id": row["id"]},
            "id": "c1",
            "result": "done",
            "agent": "shop",
        }
        assert (calls[1]["name"], calls[1]["parent"]) == ("log", "c1")
        assert usage == {"requests": 2, "input_tokens": 14, "output_tokens": 6}
        assert contexts == [{"id": "f1", "text": "30 days", "score": 0.5}]
        assert row["tokens"]["prompt"] == 14
        assert row["called"] == 1.0


@pytest.mark.slow
def test_spans_of_own_threads_are_named_and_given_to_no_case(shop):
    found = run(shop, "in_threads")
    found.stdout.fnmatch_lines(
        [
            "*the case has traces: true, and the application made no span*",
            "*24 spans of models and tools belong to no case: work that the *",
        ]
    )
    assert "scored" not in {row["status"] for row in rows(shop)}


@pytest.mark.slow
def test_a_missing_instrumentation_is_an_error(shop):
    run(shop, "silent")
    assert "scored" not in {row["status"] for row in rows(shop)}


@pytest.mark.slow
def test_servers_make_no_spans(shop):
    model = "openai:m,base_url=http://127.0.0.1:9/v1"
    shop.makeconftest("import os; os.environ.setdefault('OPENAI_API_KEY', 'none')")
    found = shop.runpytest_subprocess(f"--model={model}")
    found.stdout.fnmatch_lines(["*the openai model has no generation option 'traces'*"])


@pytest.mark.slow
def test_without_opentelemetry_the_fix_is_named(shop):
    shop.makeconftest(
        "import sys; sys.modules['opentelemetry.sdk'] = None\n"
        "sys.modules['opentelemetry.sdk.trace'] = None\n"
    )
    shop.makepyfile(shop="def respond(prompt): return 'x'")
    found = run(shop, "respond")
    found.stdout.fnmatch_lines(["*traces need OpenTelemetry*"])


def spans(**attributes: object):
    """The fields of a case with one span, as OpenInference or OpenLLMetry make it."""
    traces = Traces()
    tracer = trace.get_tracer("test")
    with traces.case() as case:
        names = {key.replace("__", "."): value for key, value in attributes.items()}
        with tracer.start_as_current_span(names.pop("name"), attributes=names):
            pass
    traces.close()
    return case.fields()


@pytest.mark.parametrize(
    ("attributes", "arguments"),
    [
        (
            {
                "name": "refund",
                "openinference__span__kind": "TOOL",
                "tool__name": "refund",
                "input__value": '{"amount": 4}',
            },
            {"amount": 4},
        ),
        (
            {
                "name": "execute_tool refund",
                "gen_ai__tool__call__arguments": json.dumps(
                    {"input_str": "x", "inputs": {"amount": 4}}
                ),
            },
            {"amount": 4},
        ),
    ],
    ids=["OpenInference", "OpenLLMetry"],
)
def test_attributes_of_other_conventions_are_read(attributes, arguments):
    (call,) = spans(**attributes)["calls"]
    assert (call["name"], call["arguments"]) == ("refund", arguments)


def test_documents_of_openinference_are_contexts():
    start = "retrieval__documents__"
    found = spans(
        name="retriever",
        openinference__span__kind="RETRIEVER",
        **{
            f"{start}0__document__content": "first",
            f"{start}1__document__content": "second",
            f"{start}1__document__id": "b",
        },
    )
    assert [*found["contexts"]] == [{"text": "first"}, {"text": "second", "id": "b"}]


def test_a_call_that_a_model_only_asked_for_is_not_counted():
    messages = '[{"role": "assistant", "parts": [{"type": "tool_call", "name": "a"}]}]'
    found = spans(
        name="chat m",
        gen_ai__operation__name="chat",
        gen_ai__output__messages=messages,
        gen_ai__usage__prompt_tokens=5,
        gen_ai__usage__completion_tokens=2,
    )
    assert found["calls"] == ()
    assert found["usage"] == {"requests": 1, "input_tokens": 5, "output_tokens": 2}


TOOL = {"name": "execute_tool pay", "gen_ai__operation__name": "execute_tool"}
RETRIEVAL = {"name": "retrieval", "gen_ai__operation__name": "retrieval"}


@pytest.mark.parametrize(
    ("attributes", "field", "expected"),
    [
        ({**TOOL, "name": "execute_tool "}, "name", "(no name)"),
        ({**TOOL, "gen_ai__tool__name": 5}, "name", "5"),
        *(
            ({**TOOL, "gen_ai__tool__call__arguments": text}, "arguments", text)
            for text in ('{"a": NaN}', '{"a": 1e999}', "[" * 9000 + "]" * 9000, "{")
        ),
        ({**TOOL, "gen_ai__tool__call__result": float("inf")}, "result", "inf"),
        ({**TOOL, "gen_ai__tool__call__result": "-Infinity"}, "result", "-Infinity"),
    ],
)
def test_odd_attributes_of_tools_stay_text(attributes, field, expected):
    (call,) = spans(**attributes)["calls"]
    assert call[field] == expected


def test_odd_documents_and_counts_do_not_end_the_run():
    given = ["a", 1, None, {"id": 2, "content": {"x": 1}, "score": "high"}, {"a": 1}]
    found = spans(**RETRIEVAL, gen_ai__retrieval__documents=json.dumps(given))
    expected = [{"text": "a"}, {"text": "1"}, {"id": 2, "text": '{"x": 1}'}]
    assert [*found["contexts"]] == expected
    found = spans(
        name="chat m",
        gen_ai__operation__name="chat",
        gen_ai__usage__input_tokens=float("inf"),
        gen_ai__usage__output_tokens=-1,
    )
    assert found["usage"] == {"requests": 1}


IDS = ("A-1", "A-2", "A-3")
TALK = """\
traces: true
user: {goal: "Refund {{id}}", model: "scripted:user.jsonl", max_turns: 2}
rows: [{id: A-1}, {id: A-2}, {id: A-3}]
score:
  - called: {refund: {order_id: "{{id}}."}}
  - {max_calls: 4}
"""


@pytest.mark.slow
def test_turns_with_a_simulated_user_have_their_own_spans_in_workers(pytester):
    """There are two turns; each makes two calls and two requests."""
    turn = '    text = prompt[-1]["content"]\n    order = text.rsplit'
    pytester.makepyfile(shop=APP.replace("    order = prompt.rsplit", turn))
    users = [{"regex": f"goal: Refund {n}", "text": f"Refund {n}."} for n in IDS]
    Path("user.jsonl").write_text("\n".join(map(json.dumps, users)))
    Path("agent.yaml").write_text(TALK)
    run(pytester, "respond", "-n", "2").assert_outcomes(passed=3)
    for row in rows(pytester):
        answers = [one for one in row["messages"][0] if one["role"] == "assistant"]
        assert len(answers) == 2
        for one in answers:
            names = [call["name"] for call in one["calls"]]
            assert (names, len(one["contexts"])) == (["refund", "log"], 1)
            order = one["calls"][0]["arguments"]["order_id"]
            assert order == f"{row['id']}."
        assert row["tokens"]["prompt"] == 28


class Spanning:
    """Each turn is a call of a tool; earlier turns cannot be restored."""

    version = "1"

    def respond(self, messages):
        name, tracer = messages[-1]["content"], trace.get_tracer("test")
        kind = {"gen_ai.operation.name": "execute_tool"}
        with tracer.start_as_current_span(f"execute_tool {name}", attributes=kind):
            return {"text": name, "cost": 0.25}


def test_a_turn_has_its_own_calls_even_if_earlier_ones_are_sent_again(tmp_path):
    def talk(*turns):
        path = tmp_path / "talk.yaml"
        path.write_text(
            f"traces: true\nrows: [{{id: a, turns: {json.dumps(turns)}}}]\n"
            "score: {call_order: [one, two, three]}\n"
        )
        (task,) = evaluate(path, Spanning, folder=tmp_path / ".evals").tasks
        return task.records[0].exchanges

    talk("one", "two")
    answers = [one.response for one in talk("one", "two", "three")]
    calls = [[call["name"] for call in one.calls] for one in answers]
    assert calls == [["one"], ["two"], ["three"]]


def test_costs_of_traced_cases_count_for_the_cap(tmp_path):
    rows = [{"id": f"a{n}"} for n in range(100)]
    text = "traces: true\nprompt: '{{id}}'\nscore: {contains: a}\n"
    (tmp_path / "case.yaml").write_text(f"{text}rows: {json.dumps(rows)}\n")
    result = evaluate(tmp_path / "case.yaml", Spanning, max_cost=0.5)
    assert "max_cost=0.5" in result.partial
    # The first one alone, then as many as are called at a time.
    assert [one.error for one in result.tasks[0].records].count("") < 20
