"""The package's engines as a model of lm-eval."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_evals import Model, Response
from pytest_evals.errors import ModelError, OptionError
from pytest_evals.guests.harness.lm_eval import HarnessModel
from pytest_evals.guests.harness.models import hf_arguments
from pytest_evals.models.hf.settings import read_settings
from pytest_evals.models.spec import ModelSpec

ROOT = Path(__file__).parents[3]
SUITE = ROOT / "example_suites" / "lm_eval"


class Cache:
    """As lm-eval's ``CacheHook``: stores its arguments."""

    def __init__(self) -> None:
        self.kept: list[tuple[str, Any, Any]] = []

    def add_partial(self, kind: str, args: Any, result: Any) -> None:
        self.kept.append((kind, args, result))


class Recorded(Model):
    """Stores its requests; rejects prompts with the word "bad"."""

    name = "recorded"

    def __init__(self) -> None:
        self.requests: list[Any] = []

    def answer(self, requests):
        for position, request in enumerate(requests):
            self.requests.append(request)
            bad = "bad" in str(request)
            yield position, Response(error="refused") if bad else self.good(request)

    def good(self, request):
        if request.kind == "generate_until":
            return Response(text=f"text {request.repeat}")
        return Response(logprob=-2.5, greedy=True)


def harness(model: Any = "", **arguments: Any) -> Any:
    made: Any = HarnessModel(model=model, **arguments)
    made.cache_hook = Cache()
    return made


def instances(*arguments: tuple[Any, ...]) -> list[Any]:
    return [
        SimpleNamespace(args=args, task_name="sums", doc_id=number)
        for number, args in enumerate(arguments)
    ]


def test_each_type_of_request_is_answered_in_order_and_kept_in_the_cache():
    model = harness(Recorded())
    assert model.loglikelihood(instances(("a", " b"))) == [(-2.5, True)]
    assert model.loglikelihood_rolling(instances(("text",))) == [-2.5]
    greedy = {"until": ["\n"], "max_gen_toks": 7, "do_sample": False}
    assert model.generate_until(instances(("a", greedy))) == ["text 0"]
    assert model.cache_hook.kept == [
        ("loglikelihood", ("a", " b"), (-2.5, True)),
        ("loglikelihood_rolling", ("text",), -2.5),
        ("generate_until", ("a", greedy), "text 0"),
    ]


def test_equal_requests_are_answered_once_but_each_sample_by_itself():
    recorded = Recorded()
    model = harness(recorded)
    greedy, drawn = {"until": []}, {"until": [], "do_sample": True, "temperature": 0.7}
    given = instances(("a", greedy), ("a", greedy), ("a", drawn), ("a", drawn))
    assert model.generate_until(given) == ["text 0", "text 0", "text 0", "text 1"]
    assert len(recorded.requests) == 3


def test_another_seed_of_lm_eval_gives_other_samples():
    """lm-eval passes its seed to torch only (``evaluator.py``, 0.4.13)."""
    torch = pytest.importorskip("torch")
    drawn = {"until": [], "do_sample": True, "temperature": 0.7}
    seeds = []
    with torch.random.fork_rng():
        for seed in (1234, 1, 2):
            torch.manual_seed(seed)
            recorded = Recorded()
            model = harness(recorded)
            model.generate_until(instances(("a", drawn), ("b", {"until": []})))
            sampled, greedy = recorded.requests
            assert greedy.options == ()
            seeds.append(dict(sampled.options).get("seed"))
            model.generate_until(instances(("a", {**drawn, "seed": 7})))
            assert ("seed", 7) in recorded.requests[-1].options
    assert seeds == [None, 1, 2]


def test_log_probabilities_of_a_model_that_thinks_first_are_refused():
    """As in lm-eval 0.4.13 (``HFLM.loglikelihood``)."""
    thinks = {"enable_thinking": "true", "think_end_token": "</think>"}
    model = harness(pretrained=str(SUITE.parent / "tiny"), **thinks)
    with pytest.raises(OptionError, match=r"generate text only; .* needed by sums"):
        model.loglikelihood(instances(("a", " b")))


def test_failed_requests_raise_with_the_reason_and_the_others_are_kept():
    model = harness(Recorded())
    given = instances(("good", " b"), ("bad", " b"), ("fine", " b"))
    with pytest.raises(ModelError) as caught:
        model.loglikelihood(given)
    assert "1 of 3 loglikelihood requests failed" in str(caught.value)
    assert "document 1 of sums: refused" in str(caught.value)
    assert [args[0] for _, args, _ in model.cache_hook.kept] == ["good", "fine"]


def test_chats_of_models_without_a_template_reach_the_model_as_messages():
    recorded = Recorded()
    model = harness(recorded)
    chat = [{"role": "user", "content": "1+1?"}]
    prompt = model.apply_chat_template(chat)
    assert json.loads(prompt) == chat
    model.generate_until(instances((prompt, {"until": []})))
    assert recorded.requests[0].prompt == (("user", "1+1?"),)
    with pytest.raises(OptionError, match="add_generation_prompt=False"):
        model.apply_chat_template(chat, add_generation_prompt=False)


@pytest.mark.parametrize(
    ("given", "field", "value"),
    [
        ({"dtype": "torch.bfloat16"}, "dtype", "bfloat16"),
        ({"revision": 12}, "revision", "12"),
        ({"parallelize": True, "device": "cuda"}, "device_map", "auto"),
        ({"parallelize": False, "logits_cache": True, "backend": "causal"}, "peft", ""),
        ({"chat_template_args": {"a": 1}}, "chat_template_args", {"a": 1}),
        (
            {"load_in_4bit": True, "bnb_4bit_compute_dtype": "bfloat16"},
            "quantization",
            {
                "quant_method": "bitsandbytes",
                "load_in_4bit": True,
                "bnb_4bit_compute_dtype": "bfloat16",
            },
        ),
    ],
)
def test_arguments_of_lm_evals_hf_model_become_ours(given, field, value):
    spec = ModelSpec(kind="hf", target="gpt2", arguments=hf_arguments(given))
    assert getattr(read_settings(spec), field) == value


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"dtyp": "float32"}, "no argument 'dtyp'; did you mean 'dtype'"),
        ({"delta": "x"}, "merge the weights first"),
        ({"backend": "seq2seq"}, "no argument 'backend'"),
        ({"tokenizer": object()}, "tokenizer is .*pass a string"),
        ({"bnb_4bit_quant_type": "nf4"}, "only with load_in_4bit"),
    ],
)
def test_unknown_arguments_are_errors_that_name_them(given, message):
    with pytest.raises(OptionError, match=message):
        HarnessModel(pretrained=str(SUITE.parent / "tiny"), **given)


def test_exactly_one_model_is_named():
    for given in ({}, {"pretrained": "gpt2", "model": "hf:gpt2"}):
        with pytest.raises(OptionError, match=r"either pretrained=.*or model="):
            HarnessModel(**given)
    with pytest.raises(OptionError, match=r"set twice.*device"):
        HarnessModel(model="hf:gpt2,device=cpu", device="cpu")


def test_lm_evals_default_device_is_not_an_argument():
    """Its command line passes cuda:0, even without a GPU."""
    HarnessModel(model="scripted:first", device="cuda:0")
    with pytest.raises(OptionError, match="no argument 'device'"):
        HarnessModel(model="scripted:first", device="cuda:1")


def test_sizes_of_batches_are_ignored_with_a_log_line(caplog):
    with caplog.at_level("INFO", logger="lm_eval"):
        HarnessModel(model="scripted:first", batch_size="auto:4")
    assert "batch_size=auto:4 is ignored" in caplog.text


def test_several_launched_processes_are_a_warning(caplog, monkeypatch):
    """Of ``accelerate launch``, which lm-eval's hf model uses for several devices."""
    HarnessModel(model="scripted:first")
    assert not caplog.text
    monkeypatch.setenv("WORLD_SIZE", "2")
    HarnessModel(model="scripted:first")
    assert "2 processes were launched, and each answers all requests" in caplog.text


def test_without_lm_eval_the_error_names_the_extra(without_lm_eval):
    code = without_lm_eval + "import pytest_evals.harness as harness\nharness.LM"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "MissingExtraError: pytest_evals.harness needs lm-eval" in done.stderr


SIDE_BY_SIDE = """
import sys, lm_eval
from lm_eval.tasks import TaskManager
from lm_eval.utils import make_table
from pytest_evals.harness import LM

names = ["capitals", "addition", "reversal", "stories"]
for more in (
    {},
    {
        "apply_chat_template": True,
        "fewshot_as_multiturn": True,
        "system_instruction": "Be brief.",
    },
    {"gen_kwargs": {"until": ["e", "."], "max_gen_toks": 20}},
):
    tables = []
    for model in ("hf", "pytest-evals", LM(pretrained="../tiny")):
        given = {}
        if isinstance(model, str):
            given = {"model_args": "pretrained=../tiny", "device": "cpu"}
        found = lm_eval.simple_evaluate(
            model=model, tasks=names, limit=30, bootstrap_iters=50, num_fewshot=2,
            task_manager=TaskManager(include_path=".", include_defaults=False),
            **more, **given,
        )
        tables.append(make_table(found))
    print(tables[0])
    assert tables[0].count("\\n") == 10, tables[0]
    assert tables[1] == tables[0], tables[1]
    assert tables[2] == tables[0], tables[2]
"""


def run(*arguments: str, folder: Path = SUITE) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        env={**os.environ, "HF_HUB_OFFLINE": "1", "PYTHONPATH": str(ROOT)},
        check=False,
    )


@pytest.mark.nightly
def test_lm_evals_own_run_prints_the_numbers_of_its_hf_model():
    """All types of requests, plain, as chats and with other stop strings, by name and
    as an object."""
    done = run("-c", SIDE_BY_SIDE)
    assert done.returncode == 0, done.stdout + done.stderr[-4000:]


@pytest.mark.nightly
def test_lm_evals_command_line_runs_once_the_class_is_imported():
    code = (
        "from pytest_evals.harness import LM\n"
        "from lm_eval.__main__ import cli_evaluate; cli_evaluate()"
    )
    command = ["run", "--model", "pytest-evals", "--model_args", "pretrained=../tiny"]
    command += ["--include_path", ".", "--tasks", "capitals", "--limit", "5"]
    done = run("-c", code, *command)
    assert done.returncode == 0, done.stdout + done.stderr[-4000:]
    assert "|capitals|" in done.stdout
    assert "batch_size=1 is ignored" in done.stderr
