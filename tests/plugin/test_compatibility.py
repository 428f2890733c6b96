"""An incompatible model and task are reported at collection."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from PIL import Image

from pytest_evals.api import evaluate
from pytest_evals.errors import OptionError

CHAT = "openai:gpt,base_url=http://127.0.0.1:9/v1,api=chat"


@pytest.fixture
def mixed(suite):
    """A task with generated answers, and one with scored choices."""
    suite.task(
        "zoo",
        output_type="multiple_choice",
        doc_to_choice=["a1", "a2"],
        doc_to_target=0,
        metric_list=[{"metric": "acc"}],
    )
    return suite


@pytest.mark.parametrize("workers", [[], ["-n2"]], ids=["alone", "workers"])
def test_the_chat_api_is_refused_for_tasks_with_log_likelihoods(mixed, workers):
    result = mixed.run("evals", *workers, model=CHAT)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    text = result.stderr.str() + result.stdout.str()
    assert (
        "the chat api gives no log-probabilities of a text, which tasks with "
        "log-likelihoods need: zoo (multiple_choice, evals/zoo.yaml:1)\n" in text
    )
    assert "fix: leave api=chat out, if the server has completions too; or run" in text
    assert "INTERNALERROR" not in text


@pytest.fixture
def text_server():
    """A server that generates and has no log-probabilities: its address, and the list
    of prompts that it received."""
    prompts = []
    choice = {"index": 0, "text": "a0", "finish_reason": "stop"}

    class Writing(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            prompts.append(json.loads(body)["prompt"])
            reply = json.dumps({"choices": [choice]}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(reply)))
            self.end_headers()
            self.wfile.write(reply)

        def log_message(self, *words):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Writing) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield f"openai:gpt,base_url=http://127.0.0.1:{server.server_port}/v1", prompts
        server.shutdown()


@pytest.mark.parametrize("workers", [[], ["-n2"]], ids=["alone", "workers"])
def test_a_server_without_log_probabilities_is_refused_before_the_first_request(
    mixed, text_server, workers
):
    model, prompts = text_server
    result = mixed.run("evals", *workers, model=model)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    text = result.stderr.str() + result.stdout.str()
    assert "cannot score texts, as tasks with log-likelihoods need" in text
    assert "zoo (multiple_choice, evals/zoo.yaml:1)\n  echo: it gives no" in text
    assert not any("quiz" in prompt or "zoo" in prompt for prompt in prompts)
    assert "INTERNALERROR" not in text


@pytest.mark.slow
def test_a_server_is_not_probed_if_no_request_needs_it(mixed, text_server):
    model, prompts = text_server
    for arguments in (["--collect-only"], ["--evals-plan"], ["--evals-cache=only"]):
        mixed.run("evals", *arguments, model=model)
        assert prompts == []
    result = mixed.run("evals/quiz.yaml", model=model)
    assert result.parseoutcomes() == {"passed": 1, "wrong": 9}
    assert len(prompts) == 10


def test_compatibility_is_checked_for_selected_tasks_only(mixed):
    result = mixed.run("evals", "-k", "quiz", "--collect-only", "-q", model=CHAT)
    assert result.ret == pytest.ExitCode.OK


def test_multiple_choice_after_a_chat_template_is_refused(mixed):
    mixed.task(
        "text",
        output_type="loglikelihood_rolling",
        metric_list=[{"metric": "word_perplexity"}],
    )
    texts = "openai:gpt,base_url=http://127.0.0.1:9/v1"
    arguments = ["evals", "--evals-apply-chat-template", "--collect-only", "-q"]
    result = mixed.run(*arguments, model=texts)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        ["*cannot score the continuation of a chat: zoo (multiple_choice, evals/zoo*1)"]
    )
    assert mixed.run("evals", "--collect-only", "-q", model=texts).ret == 0


def test_tasks_with_images_are_refused_before_a_text_model_is_loaded(
    mixed, tiny_model_path
):
    Image.new("RGB", (1, 1)).save(mixed.pytester.path / "photo.png")
    mixed.task("photos", doc_to_image="{{'photo.png'}}")
    result = mixed.run("evals", "--collect-only", "-q", model=f"hf:{tiny_model_path}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        [
            "*hf: model reads texts*: photos (generate_until, evals/photos.yaml:1)",
            "*fix: choose an image-text-to-text model*",
        ]
    )


def test_choices_of_a_chat_are_refused_if_the_model_thinks_first(
    mixed, tiny_model_path
):
    """As in lm-eval 0.4.13 (``HFLM.loglikelihood``)."""
    model = f"hf:{tiny_model_path},enable_thinking=true,think_end_token=</think>"
    chat = ("evals", "--collect-only", "-q", "--evals-apply-chat-template")
    result = mixed.run(*chat, model=model)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        [
            "*enable_thinking=true: *: zoo (multiple_choice, evals/zoo.yaml:1)",
            "*fix: leave enable_thinking out; or * --evals-choices=generate",
        ]
    )
    assert mixed.run(*chat, "--evals-choices=generate", model=model).ret == 0
    assert mixed.run("evals", "--collect-only", "-q", model=model).ret == 0


def test_validation_checks_compatibility(mixed):
    result = mixed.run("evals", "--evals-validate", model=CHAT)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*the chat api gives no log-probabilities*"])


@pytest.mark.parametrize(
    ("option", "what"),
    [
        ("--model=scripted:", "'scripted:' names no model; write 'scripted:first'"),
        ("--model=hf:gpt2,dtyp=auto", "the hf model takes no argument 'dtyp'"),
        ("--model=scriptd:first", "unknown kind of model 'scriptd'"),
        ("--model=hf:./nowhere", ""),
        ("--evals-judge=openai:", "--evals-judge: 'openai:' names no model"),
    ],
)
@pytest.mark.parametrize(
    "arguments",
    [
        ["test_python.py"],
        ["lazy.yaml"],
        pytest.param(["test_python.py", "-n2"], marks=pytest.mark.slow),
        pytest.param(["lazy.yaml", "-n2"], marks=pytest.mark.slow),
    ],
    ids=" ".join,
)
def test_an_invalid_spec_is_refused_before_documents_are_collected(
    pytester, option, what, arguments
):
    pytester.makepyfile(
        test_python="""
        import pathlib
        import pytest_evals as ev

        @ev.eval
        def bot():
            pathlib.Path("collected").touch()
            yield ev.case("Q?", target="a")
        """,
        utils="""
        import pathlib

        def rows(**kwargs):
            pathlib.Path("collected").touch()
            return {"test": [{"q": "Q?", "a": "a"}]}
        """,
    )
    pytester.path.joinpath("lazy.yaml").write_text(
        "task: lazy\ncustom_dataset: !function utils.rows\ntest_split: test\n"
        "doc_to_text: q\ndoc_to_target: a\noutput_type: generate_until\n"
    )
    run = pytester.runpytest_inprocess(*arguments, "--model=scripted:echo", option)
    assert run.ret == pytest.ExitCode.USAGE_ERROR
    assert run.stderr.str().startswith(f"ERROR: {what}")
    assert run.stderr.str().count("ERROR") == 1
    assert not pytester.path.joinpath("collected").exists()
    models = {
        "model": "scripted:echo",
        option[2:].removeprefix("evals-").split("=")[0]: option.partition("=")[2],
    }
    with pytest.raises(OptionError) as refused:
        evaluate("lazy.yaml", **models)
    assert what.removeprefix("--evals-") in str(refused.value)
    assert not pytester.path.joinpath("collected").exists()
