"""HTTP models with custom addresses, against a server in this process."""

import json
import threading
import time
from collections import deque
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from pytest_evals.core.latency import with_latency
from pytest_evals.core.request import Generate
from pytest_evals.errors import ModelError, OptionError
from pytest_evals.guests.latticeflow.http_model import Connection, HttpModel
from pytest_evals.guests.latticeflow.models import BUILT_IN, ModelInfo
from pytest_evals.models.http.retries import Backoff
from pytest_evals.models.http.spend_cap import Ledger

KEY = "sk-never-to-be-shown"
CHAT = BUILT_IN["latticeflow$openai_chat_completion"]
QUICK = Backoff(first_s=0.001, most_s=0.001)


class Served:
    """The requests that the server received, and its replies: statuses, one after the
    other."""

    def __init__(self):
        self.bodies, self.headers, self.times = [], [], []
        self.faults = deque()


@pytest.fixture
def served():
    state = Served()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            state.bodies.append(json.loads(body))
            state.headers.append(dict(self.headers))
            state.times.append(time.monotonic())
            status, text = state.faults.popleft() if state.faults else (200, "")
            content = state.bodies[-1]["messages"][-1]["content"]
            reply = {
                "choices": [
                    {"message": {"role": "assistant", "content": content.upper()}}
                ],
                "usage": {"prompt_tokens": 2, "completion_tokens": 1},
            }
            data = (text or json.dumps(reply)).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_args):
            """Log nothing to standard error."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    state.url = f"http://127.0.0.1:{server.server_port}/complete"
    yield state
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def model_of(served):
    opened = []

    def of(adapter=CHAT, **more):
        headers = {"Authorization": f"Bearer {KEY}"}
        connection = Connection(**{"url": served.url, "headers": headers, **more})
        info = ModelInfo("http-model", "tiny")
        model = HttpModel(info, adapter, connection, {"kind": "x"}, QUICK)
        opened.append(model)
        return model

    yield of
    for model in opened:
        model.close()


def ask(model, *texts):
    found = dict(model.answer([Generate(text) for text in texts]))
    return [found[n] for n in range(len(texts))]


def text_of(response):
    assert response.error == ""
    return json.loads(response.text)["choices"][0]["message"]["content"]


def test_a_call_is_one_post(served, model_of):
    model = model_of()
    responses = ask(model, "a", "b", "c")
    assert [text_of(one) for one in responses] == ["A", "B", "C"]
    assert {body["model"] for body in served.bodies} == {"tiny"}
    assert served.headers[0]["Authorization"] == f"Bearer {KEY}"
    assert model.info["usage"]["prompt_tokens"] == 6
    assert (responses[0].n_prompt_tokens, responses[0].n_tokens) == (2, 1)


def test_a_busy_server_is_retried(served, model_of):
    served.faults += [(503, "busy"), (429, "slow down")]
    model = model_of()
    assert text_of(ask(model, "a")[0]) == "A"
    assert model.info["usage"]["retries"] == 2


def test_a_request_that_is_refused_is_an_error_of_its_document(served, model_of):
    model = model_of(max_retries=1)
    assert text_of(ask(model, "a")[0]) == "A"
    served.faults += [(422, f"the key {KEY} is odd"), (500, "x"), (500, "x")]
    (odd,) = ask(model, "b")
    assert (
        odd.error
        == f"http-model at {served.url}: the server returned 422: 'the key *** is odd'"
    )
    (broken,) = ask(model, "c")
    assert (
        broken.error
        == f"http-model at {served.url}: the server returned 500: 'x' (2 attempts)"
    )


@pytest.mark.parametrize(
    ("status", "fix"),
    [
        (401, "check api_key: and secrets: in the model's file"),
        (402, "check the credit of the account"),
        (403, "check api_key: and secrets: in the model's file"),
        (404, "check url: and model_key: in the model's file"),
    ],
)
def test_a_wrong_key_or_address_or_an_empty_account_ends_the_run_at_once(
    served, model_of, status, fix
):
    served.faults += [(status, "no")]
    with pytest.raises(ModelError) as caught:
        ask(model_of(), "a")
    assert len(served.bodies) == 1
    assert str(caught.value) == (
        f"http-model at {served.url}: the server returned {status}: 'no'\n  fix: {fix}"
    )


def test_the_errors_of_an_account_that_runs_out_in_mid_run_contain_the_fix(
    served, model_of
):
    model = model_of(max_retries=0)
    assert text_of(ask(model, "a")[0]) == "A"
    served.faults += [(402, "no"), (500, "x")]
    (unpaid,), (broken,) = ask(model, "b"), ask(model, "c")
    assert unpaid.error.endswith("\n  fix: check the credit of the account")
    assert "fix:" not in broken.error


def test_a_server_that_is_not_there_ends_the_run(model_of):
    model = model_of(url="http://127.0.0.1:9/x")
    with pytest.raises(
        ModelError, match=r"http-model at http://127.0.0.1:9/x: the connec"
    ):
        ask(model, "a")


def test_an_adapter_may_make_something_of_a_refusal(served, model_of):
    def to_output(text, status, info):
        return {"error": f"{status} {text}"} if status != 200 else {}

    served.faults += [(404, "nothing here")]
    (response,) = ask(
        model_of(CHAT._replace(to_output=to_output, takes_faults=True)), "a"
    )
    assert response.error == (
        f"http-model at {served.url}: the model returned an error: 404 nothing here"
    )


def test_calls_a_minute_are_kept(served, model_of):
    begin = time.monotonic()
    ask(model_of(per_minute=1200, concurrency=4), "a", "b", "c")
    _, *others = sorted(served.times)
    assert all(one - begin >= 0.05 * n for n, one in enumerate(others, 1))


def test_a_reply_that_is_not_json_is_an_error(served, model_of):
    served.faults += [(200, "<html>")]
    (response,) = ask(model_of(), "a")
    assert ": the reply is not JSON" in response.error


def test_calls_beyond_a_spend_cap_are_not_sent(served, model_of):
    Ledger.begin_run()
    served.faults += [(500, "x")]
    found = ask(model_of(max_requests=4, concurrency=1), *"abcdef")
    assert len(served.bodies) == 4
    assert [one.finish for one in found] == [""] * 3 + ["unsent"] * 3
    assert found[-1].error == "spend cap of http-model reached: max_requests=4"


@pytest.mark.slow
def test_the_cost_of_calls_is_counted_and_capped(served, model_of):
    Ledger.begin_run()
    # 2 and 1 tokens a call: 0.0025. The highest cost of a call is that of its bytes.
    prices = {"price_in": 1000, "price_out": 500}
    model = model_of(max_cost=0.75, concurrency=1, **prices)
    found = ask(model, *(str(n) for n in range(400)))
    n_sent = len(served.bodies)
    assert 0 < n_sent < 400
    assert {one.finish for one in found[n_sent:]} == {"unsent"}
    assert [one.cost for one in found[:n_sent]] == [pytest.approx(0.0025)] * n_sent
    usage = model.info["usage"]
    assert usage["cost"] == pytest.approx(0.0025 * n_sent)
    assert usage["cost"] <= 0.75
    assert (usage["prompt_tokens"], usage["completion_tokens"]) == (2 * n_sent, n_sent)
    assert with_latency(model.info)["latency"]["reply_s"]["n"] == n_sent


def test_a_call_without_token_counts_costs_its_highest_cost(served, model_of):
    Ledger.begin_run()
    reply = {"choices": [{"message": {"role": "assistant", "content": "A"}}]}
    served.faults += [(200, json.dumps(reply))] * 50
    model = model_of(max_cost=0.75, concurrency=1, price_in=1000, price_out=500)
    found = ask(model, *(str(n) for n in range(50)))
    assert 0 < len(served.bodies) < 8
    assert found[0].cost is None


RUN = """
models:
  - key: app
    display_name: App
    max_requests: 3
    price_in: 1000
    price_out: 500
    config:
      url: {url}
      adapter: {{key: latticeflow$openai_chat_completion}}
datasets:
  - key: rows
    display_name: Rows
    source: {{type: local, file_path: rows.jsonl}}
tasks:
  - key: upper
    display_name: Upper
    description: Upper case.
    definition:
      dataset: {{key: rows}}
      solver:
        type: single_turn_solver
        input_builder:
          type: chat_completion
          input_messages: [{{role: user, content: "{{{{ sample.q }}}}"}}]
      scorers:
        - {{type: string_equals, ground_truth: "{{{{ sample.a }}}}"}}
evaluation:
  key: all
  display_name: All
  task_specifications:
    - {{key: upper-spec, task_key: upper, model_key: app}}
"""


@pytest.mark.parametrize("name", ["max_tokens", "max_output_tokens"])
def test_a_call_whose_token_limit_costs_more_than_the_cap_is_not_sent(
    served, model_of, name
):
    """100,000 tokens at 500 a million are 50."""
    Ledger.begin_run()
    model = model_of(max_cost=49, price_out=500)
    options = (("model_kwargs", json.dumps({name: 100_000})),)
    ((_, found),) = model.answer([Generate("a", options=options)])
    assert (found.finish, served.bodies) == ("unsent", [])


def test_a_run_reports_cost_latency_and_spend_cap_of_a_file_model(served, pytester):
    rows = [json.dumps({"q": f"q{n}", "a": f"Q{n}"}) for n in range(5)]
    (pytester.path / "rows.jsonl").write_text("\n".join(rows))
    (pytester.path / "run.yaml").write_text(RUN.format(url=served.url))
    run = pytester.runpytest("run.yaml")
    run.stdout.fnmatch_lines(
        [
            "*spend cap of app reached:*",
            "app: server: cost 0.0075 for 6 tokens of prompts and 3 of answers",
            "app: latency (p50, p95): *reply *",
            "spend cap: 3 of 5 documents scored; 3 responses stored",
        ],
        consecutive=False,
    )
    assert len(served.bodies) == 3
    assert run.ret == 1


def test_the_plan_estimates_the_answers_of_a_file_model_by_the_last_run(
    served, pytester
):
    """Each answer has 1 token, at 500 per million; 3 of 5 documents are stored."""
    rows = [json.dumps({"q": f"q{n}", "a": f"Q{n}"}) for n in range(5)]
    (pytester.path / "rows.jsonl").write_text("\n".join(rows))
    (pytester.path / "run.yaml").write_text(RUN.format(url=served.url))
    pytester.runpytest("run.yaml")
    plan = pytester.runpytest("run.yaml", "--evals-plan")
    words = " ".join(plan.stdout.str().split())
    assert "app: to send, without retries, probes and follow-up requests: 2 " in words
    assert "generated tokens without a limit, ~2 by the last run" in words
    assert "app: cost: at least ~0.001, for prompts alone, ~0.002 by the last" in words


def test_an_invalid_proxy_is_an_error_that_names_the_variable(monkeypatch):
    monkeypatch.setenv("all_proxy", "foo://me:s3cretpass@proxy:1")
    with pytest.raises(
        OptionError, match="variable all_proxy has an unknown"
    ) as caught:
        HttpModel(
            ModelInfo("m", "m", "chat_completion"),
            CHAT,
            Connection(url="http://127.0.0.1:1/complete"),
            {},
        )
    assert "s3cretpass" not in str(caught.value)
