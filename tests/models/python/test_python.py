"""Python functions as models: how they are called, and how their errors are
reported."""

from __future__ import annotations

import asyncio
import threading
import time
import urllib.error
from functools import partial

import pytest

from pytest_evals.core.latency import with_latency
from pytest_evals.core.request import (
    GRAMMAR,
    IMAGES,
    Generate,
    Loglikelihood,
    Message,
    Response,
)
from pytest_evals.errors import ModelError, OptionError
from pytest_evals.models.http.retries import Backoff
from pytest_evals.models.python.kind import read_settings
from pytest_evals.models.python.model import PythonModel
from pytest_evals.models.registry import open_model, parse_spec
from pytest_evals.reports.overview.counts import latency_line

CHAT = (Message("system", "Be brief."), Message("user", "Hi"))
DICTS = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Hi"},
]


def answers(function, *requests, **limits):
    """Responses in the order of the requests, and the notes of the model."""
    model = PythonModel(function, **limits)
    model._backoff = Backoff(first_s=0.001)
    try:
        found = dict(model.answer(requests))
        return [found[i] for i in range(len(requests))], model.notes
    finally:
        model.close()


def answer(function, request=None, **limits):
    ((found,), _) = answers(function, request or Generate("q"), **limits)
    return found


def returns(value):
    def respond(prompt):
        return value

    return respond


@pytest.mark.parametrize("is_async", [False, True])
def test_a_function_gets_the_prompt_and_its_text_is_the_answer(is_async):
    def respond(question):
        return question.upper()

    async def respond_async(question):
        await asyncio.sleep(0)
        return question.upper()

    found = answer(respond_async if is_async else respond)
    assert (found.text, found.error, found.finish) == ("Q", "", "stop")
    assert found.latency_s > 0


class Bot:
    """An application with a method and ``__call__``."""

    async def __call__(self, prompt):
        return f"called {prompt}"

    def respond(self, prompt):
        return f"method {prompt}"


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (Bot(), "called q"),
        (Bot().respond, "method q"),
        (partial(lambda end, prompt: prompt + end, "!"), "q!"),
        (lambda prompt: Bot()(prompt), "called q"),
        (lambda *parts: parts[0], "q"),
        (lambda prompt, /: prompt, "q"),
        (lambda prompt, k=3: f"{prompt}{k}", "q3"),
        (lambda *, prompt: prompt, "q"),
        (lambda k=1, prompt="": f"{prompt}{k}", "q1"),
        (str.upper, "Q"),
    ],
)
def test_other_callables_are_called_alike(function, text):
    assert answer(function).text == text


def test_parameters_get_the_values_of_their_names():
    seen = []

    def respond(prompt, messages, request):
        seen.append((prompt, messages, request))
        return "a"

    text, chat = Generate("q", max_tokens=7), Generate(CHAT)
    answers(respond, text, chat, concurrency=1)
    assert seen == [
        ("q", [{"role": "user", "content": "q"}], text),
        (DICTS, DICTS, chat),
    ]


def test_images_are_in_the_messages():
    seen = []
    answer(
        lambda prompt: seen.append(prompt) or "a",
        Generate("What is it?", options=((IMAGES, ("data:image/png;base64,AA",)),)),
    )
    parts = [
        {"type": "text", "text": "What is it?"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}},
    ]
    assert seen == [[{"role": "user", "content": parts}]]


@pytest.mark.parametrize(
    ("function", "what"),
    [
        (lambda prompt, index: "", "has the parameter 'index' without a default"),
        (lambda: "", "has no parameter for the prompt"),
        (lambda **named: "", "has no parameter for the prompt"),
        ("respond", "is 'respond' (str), not a function"),
    ],
)
def test_a_function_that_takes_no_prompt_is_refused(function, what):
    with pytest.raises(OptionError) as caught:
        PythonModel(function)
    assert what in str(caught.value)


def test_a_response_is_passed_on_with_its_steps():
    steps = ({"tool": "search", "arguments": {"query": "q"}},)
    found = answer(returns(Response(text="a", steps=steps, cost=0.5)))
    assert (found.text, found.steps, found.cost) == ("a", steps, 0.5)
    assert found.latency_s > 0


def test_a_text_ends_before_a_stop_string():
    found = answer(returns("one\ntwo"), Generate("q", ("\n",)))
    assert (found.text, found.finish) == ("one", "stop")


def generator(prompt):
    yield "a"


@pytest.mark.parametrize(
    ("function", "shown"),
    [
        (returns(None), "None"),
        (returns(b"a"), "b'a' (bytes)"),
        (returns(3), "3 (int)"),
        (generator, "(generator)"),
    ],
)
def test_a_value_of_another_type_is_an_error_that_names_it(function, shown):
    found = answer(function)
    assert found.text == ""
    assert shown in found.error
    assert found.error.endswith("\n  fix: return a str, a dict or a Response")


def test_a_dict_with_another_key_is_an_error_that_names_the_keys():
    found = answer(returns({"answer": "a"}))
    assert "returned a dict with the key 'answer'; known: text, data, " in found.error


@pytest.mark.parametrize(
    ("kind", "is_async"),
    [
        *((kind, False) for kind in (ValueError, SystemExit, StopIteration, KeyError)),
        *((kind, True) for kind in (ValueError, SystemExit, KeyError)),
    ],
)
def test_an_exception_is_an_error_with_file_and_line(kind, is_async):
    def respond(prompt):
        raise kind("no index")

    async def respond_async(prompt):
        return respond(prompt)

    found = answer(respond_async if is_async else respond)
    line = respond.__code__.co_firstlineno + 1
    assert found.text == ""
    assert f"{kind.__name__}: " in found.error and "no index" in found.error
    assert found.error.endswith(f"test_python.py:{line})")


class StatusError(Exception):
    """An error of an HTTP client."""

    def __init__(self, status_code):
        self.status_code = status_code


class APIConnectionError(Exception):
    """As in clients whose errors do not inherit from Python's."""


@pytest.mark.parametrize(
    ("error", "calls"),
    [
        (ConnectionResetError("gone"), 3),
        (TimeoutError(), 3),
        (StatusError(429), 3),
        (StatusError(408), 3),
        (StatusError(409), 3),
        (StatusError(503), 3),
        (APIConnectionError(), 3),
        (urllib.error.HTTPError("http://a", 502, "bad", None, None), 3),
        (urllib.error.URLError(ConnectionRefusedError()), 3),
        (StatusError(400), 1),
        (StatusError(401), 1),
        (ValueError(429), 1),
        (SystemExit(503), 1),
    ],
)
def test_only_errors_that_may_pass_are_retried(error, calls):
    seen = []

    def respond(prompt):
        seen.append(prompt)
        raise error

    found = answer(respond)
    assert len(seen) == calls
    assert found.error and found.error.endswith(" (3 attempts)") == (calls == 3)


def test_an_answer_after_a_retry_counts_and_the_retry_is_counted():
    seen = []

    def respond(prompt):
        seen.append(prompt)
        if len(seen) < 3:
            raise StatusError(429)
        return "a"

    model = PythonModel(respond)
    model._backoff = Backoff(first_s=0.001)
    ((_, found),) = model.answer([Generate("q")])
    model.close()
    assert found.text == "a"
    usage = {"requests": 3, "retries": 2, "retried": {"429": 2}}
    assert model.info["usage"].items() >= usage.items()


@pytest.mark.parametrize("is_async", [False, True])
def test_no_more_calls_at_once_than_the_limit(is_async):
    running, most = set(), []
    lock = threading.Lock()

    def begin(prompt):
        with lock:
            running.add(prompt)
            most.append(len(running))

    def respond(prompt):
        begin(prompt)
        time.sleep(0.02)
        running.discard(prompt)
        return "a"

    async def respond_async(prompt):
        begin(prompt)
        await asyncio.sleep(0.02)
        running.discard(prompt)
        return "a"

    requests = [Generate(f"q{i}") for i in range(12)]
    function = respond_async if is_async else respond
    found, _ = answers(function, *requests, concurrency=3)
    assert [one.text for one in found] == ["a"] * 12
    assert max(most) == 3


def test_coroutines_of_all_batches_run_in_one_event_loop():
    loops = set()

    async def respond(prompt):
        loops.add(asyncio.get_running_loop())
        return "a"

    model = PythonModel(respond)
    for _ in range(2):
        list(model.answer([Generate("q"), Generate("r")]))
    model.close()
    assert len(loops) == 1


@pytest.mark.slow
def test_a_coroutine_that_blocks_the_others_is_noted():
    async def respond(prompt):
        time.sleep(1.6)
        return "a"

    (found,), notes = answers(respond, Generate("q"), version="1")
    assert found.text == "a"
    (note,) = notes
    assert "the coroutine blocked the event loop for up to 1." in note


def test_a_model_that_is_closed_can_be_used_again():
    model = PythonModel(lambda prompt: prompt)
    for prompt in ("q", "r"):
        ((_, found),) = model.answer([Generate(prompt)])
        assert found.text == prompt
        model.close()


def test_a_model_that_answers_nothing_starts_no_thread():
    before = {*threading.enumerate()}  # those of earlier tests may end meanwhile
    PythonModel(lambda prompt: prompt)
    assert {*threading.enumerate()} <= before


def test_a_coroutine_is_cancelled_at_the_time_limit():
    ended = []

    async def respond(prompt):
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            ended.append(prompt)
            raise

    (found,), notes = answers(respond, Generate("q"), time_limit=0.1, version="1")
    assert "did not return within the time limit of 0.1 s" in found.error
    assert (ended, notes) == (["q"], ())


@pytest.mark.slow
def test_a_thread_keeps_its_slot_beyond_the_time_limit_until_it_returns():
    running, most = set(), []

    def respond(prompt):
        running.add(prompt)
        most.append(len(running))
        time.sleep(0.6 if prompt == "slow" else 0.01)
        running.discard(prompt)
        return "late" if prompt == "slow" else "a"

    requests = [Generate("slow"), *(Generate(f"q{i}") for i in range(30))]
    found, notes = answers(
        respond, *requests, concurrency=2, time_limit=0.2, version="1"
    )
    assert "did not return within the time limit of 0.2 s" in found[0].error
    assert {one.text for one in found[1:]} == {"a"}
    assert max(most) <= 2
    assert len(notes) == 1 and "1 call did not end at the time limit" in notes[0]


def test_calls_that_never_return_break_the_model_instead_of_blocking_the_run():
    forever = threading.Event()
    model = PythonModel(lambda prompt: forever.wait(), concurrency=2, time_limit=0.1)
    began = time.monotonic()
    with pytest.raises(ModelError, match="all 2 concurrent calls are still running"):
        list(model.answer([Generate(f"q{i}") for i in range(5)]))
    model.close()
    assert time.monotonic() - began < 5
    forever.set()


def test_other_kinds_of_requests_are_errors():
    found = answer(returns("a"), Loglikelihood("q", " a"))
    assert "no log-probabilities" in found.error
    schema = Generate("q", options=((GRAMMAR, '{"type": "json", "value": {}}'),))
    assert "has a grammar" in answer(returns("a"), schema).error
    assert answer(lambda request: request.prompt, schema).text == "q"


def versioned(version):
    def respond(prompt):
        return "a"

    respond.version = version
    return respond


@pytest.mark.parametrize(
    ("function", "given", "version"),
    [
        (versioned("2026-11-01"), "", "2026-11-01"),
        (versioned("2026-11-01"), "7", "7"),
        (versioned(3), "", "3"),
        (versioned(lambda: "abc"), "", "abc"),
        (returns("a"), lambda: 12, "12"),
        (partial(versioned("1")), "", "1"),
    ],
)
def test_responses_are_stored_for_a_version(function, given, version):
    model = PythonModel(function, given)
    model.close()
    assert model.fingerprint["version"] == version
    assert model.fingerprint["python"].startswith(f"{__name__}:")
    assert model.notes == ()


def test_without_a_version_nothing_is_stored_and_a_note_names_the_remedy():
    model = PythonModel(Bot().respond)
    model.close()
    assert model.fingerprint is None
    (note,) = model.notes
    assert "Bot.respond: no version is set" in note
    assert "set FUNCTION.version" in note
    assert "neither stored nor reused" in note


@pytest.mark.parametrize("version", [True, ["1"], {"v": 1}])
def test_a_version_of_another_type_is_refused(version):
    with pytest.raises(OptionError, match="fix: use a text, a number or a date"):
        PythonModel(versioned(version))


def test_a_version_that_fails_is_refused_with_its_line():
    def version():
        raise OSError("no index")

    with pytest.raises(OptionError) as caught:
        PythonModel(returns("a"), version)
    line = version.__code__.co_firstlineno + 1
    assert f"OSError: no index ({__file__}:{line})".split("/")[-1] in str(caught.value)


@pytest.mark.parametrize(
    ("limits", "what"),
    [
        ({"concurrency": 0}, "concurrency is 0; use a whole number from 1"),
        ({"retries": -1}, "retries is -1; use a whole number from 0"),
        ({"time_limit": 0}, "time_limit is 0; use seconds, more than 0"),
        ({"time_limit": float("nan")}, "time_limit is nan"),
        ({"time_limit": "60"}, "time_limit is '60'"),
    ],
)
def test_an_invalid_limit_is_refused(limits, what):
    with pytest.raises(OptionError) as caught:
        PythonModel(returns("a"), **limits)
    assert what in str(caught.value)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("my_app", "write 'python:my_app:FUNCTION'"),
        ("my_app.respond", "write 'python:my_app:respond'"),
        ("my_app.py:respond", "name the module: 'python:my_app:respond'"),
        ("src/my_app.py:respond", "name the module: 'python:src.my_app:respond'"),
        ("./my_app.py", "name the module: 'python:my_app:FUNCTION'"),
        ("my app:respond", "is not a module and a function"),
        ("my_app:respond()", "is not a module and a function"),
        ("my_app:", "is not a module and a function"),
        ("my_app:f,concurrency=0", "write a whole number from 1"),
        ("my_app:f,time_limit=-1", "write seconds, more than 0"),
        ("my_app:f,timeout=3", "no argument 'timeout': use time_limit"),
        ("my_app:f,retris=3", "did you mean 'retries'?"),
        ("my_app:f,version=", "version is empty; leave it out"),
    ],
)
def test_a_spec_with_a_mistake_names_it(spec, message):
    with pytest.raises(OptionError) as caught:
        read_settings(parse_spec(f"python:{spec}"))
    assert message in str(caught.value)


APP = """
class Bot:
    def respond(self, prompt):
        return "bot"

bot = Bot()
answer = "text"

def respond(prompt):
    return "app " + prompt
"""


@pytest.fixture
def project(pytester):
    """A project with modules, whose names no other test imports."""
    pytester.makepyfile(
        evals_app=APP,
        evals_broken="import evals_app\n\nprint('a)\n",
        evals_lacking="import os\n\nimport no_such_library_of_mine\n",
        evals_failing="def load():\n    raise OSError('no key')\n\nload()\n",
        evals_leaving="raise SystemExit(2)\n",
    )
    pytester.makepyprojecttoml("[project]\n")
    return pytester


@pytest.mark.parametrize(
    ("target", "text"),
    [("evals_app:respond", "app q"), ("evals_app:bot.respond", "bot")],
)
def test_the_module_is_found_in_the_project(project, monkeypatch, target, text):
    (project.path / "deep").mkdir()
    monkeypatch.chdir(project.path / "deep")
    model = open_model(parse_spec(f"python:{target},concurrency=2"))
    ((_, found),) = model.answer([Generate("q")])
    model.close()
    assert found.text == text
    assert model.name == f"python:{target},concurrency=2"


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("evals_ap:respond", "no module 'evals_ap'; did you mean 'evals_app'?"),
        (
            "evals_app.respond:f",
            "no module 'evals_app.respond': 'evals_app' is a module and not a package",
        ),
        (
            "evals_app:respnd",
            "the module 'evals_app' (evals_app.py) has no 'respnd'; "
            "did you mean 'respond'?",
        ),
        ("evals_app:bot.reply", "has no 'reply'"),
        ("evals_app:answer", "python:evals_app:answer is 'text' (str), not a function"),
        (
            "evals_broken:respond",
            "the module 'evals_broken' cannot be imported: evals_broken.py:3: "
            "SyntaxError: unterminated string literal",
        ),
        (
            "evals_lacking:respond",
            "the module 'evals_lacking' cannot be imported: ModuleNotFoundError: "
            "No module named 'no_such_library_of_mine' (evals_lacking.py:3)",
        ),
        (
            "evals_failing:respond",
            "the module 'evals_failing' cannot be imported: OSError: no key "
            "(evals_failing.py:2)",
        ),
        ("evals_leaving:respond", "SystemExit: 2 (evals_leaving.py:1)"),
    ],
)
def test_a_function_that_cannot_be_loaded_names_the_reason(project, target, message):
    with pytest.raises(OptionError) as caught:
        open_model(parse_spec(f"python:{target}"))
    assert message in str(caught.value)


def test_the_latency_of_a_function_has_no_first_token():
    model = PythonModel(lambda prompt: Response(text="two words", n_tokens=2))
    list(model.answer([Generate("Q:")]))
    model.close()
    info = with_latency(model.info)
    assert info["latency"]["reply_s"]["n"] == 1
    assert "first_token_s" not in info["latency"]
    assert "first token" not in latency_line(info)
