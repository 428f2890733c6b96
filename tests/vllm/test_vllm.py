"""vLLM compared with the ``hf:`` model, with a small random Llama.

Skipped without vLLM; ``environment.sh`` in this folder creates an environment with it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_evals.core.request import Generate, Loglikelihood, Message, Rolling
from pytest_evals.errors import ModelError, OptionError
from pytest_evals.models.registry import (
    check_ready,
    fingerprint_of,
    open_model,
    parse_spec,
)

pytest.importorskip("vllm", reason="vLLM is not installed")
torch = pytest.importorskip("torch")

os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
ROOT = Path(__file__).parents[2]
WINDOW = 512
ARGUMENTS = "dtype=float32,enforce_eager=true,max_num_seqs=32,block_size=32"
NEAR = 2e-4
"""Tolerance in nats."""
SHOTS = "Question: what is next? Answer: no. " * 4


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A small random Llama, whose heads have a size that vLLM's CPU kernels support,
    with the tokenizer of the bundled model."""
    from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

    path = tmp_path_factory.mktemp("llama")
    tokenizer = AutoTokenizer.from_pretrained(ROOT / "example_suites" / "tiny")
    torch.manual_seed(1)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=WINDOW,
        initializer_range=0.3,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
    )
    LlamaForCausalLM(config).save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path


def answers(model, requests):
    return [response for _, response in sorted(model.answer(requests))]


@pytest.fixture(scope="module")
def hf(folder):
    """The ``hf:`` model with the window that vLLM scores."""
    model = open_model(parse_spec(f"hf:{folder},dtype=float32,max_length={WINDOW - 2}"))
    yield model
    model.close()


@pytest.fixture(scope="module")
def hf_writing(folder):
    """The ``hf:`` model with the window in which vLLM generates."""
    model = open_model(parse_spec(f"hf:{folder},dtype=float32"))
    yield model
    model.close()


@pytest.fixture(scope="module")
def model(folder):
    """The model in vLLM."""
    model = open_model(parse_spec(f"vllm:{folder},{ARGUMENTS}"))
    yield model
    model.close()


def near(ours, theirs):
    for one, other in zip(ours, theirs, strict=True):
        assert one.error == other.error
        if other.error:
            continue
        assert one.logprob == pytest.approx(other.logprob, abs=NEAR, rel=2e-6)
        assert one.greedy == other.greedy
        assert one.n_tokens == other.n_tokens
        assert one.n_truncated == other.n_truncated


CHOICES = [
    Loglikelihood(f"{SHOTS}{i} is", end)
    for i in range(6)
    for end in ("A", "B", "C", " more than one token", "Ae", "")
]
LONG = [
    Loglikelihood("", "no context"),
    Loglikelihood("blank at the end  ", "x"),
    Loglikelihood("z" * (WINDOW - 3), "ab"),
    Loglikelihood("z" * (WINDOW - 2), "ab"),
    Loglikelihood("z" * 3 * WINDOW, "too long"),
    Loglikelihood("a", "z" * WINDOW),
]


def test_loglikelihoods_are_those_of_the_hf_model(model, hf):
    assert model.info["scoring_path"] == "vllm+candidates"
    near(answers(model, CHOICES + LONG), answers(hf, CHOICES + LONG))
    assert model.notes == ()


def test_a_greedy_choice_is_found(model, hf):
    prompts = [f"{SHOTS}{i}" for i in range(40)]
    texts = answers(model, [Generate(prompt, max_tokens=1) for prompt in prompts])
    requests = [
        Loglikelihood(prompt, text.text)
        for prompt, text in zip(prompts, texts, strict=True)
        if text.text.isalnum() and text.text.isascii()
    ]
    assert requests
    found = answers(model, requests)
    assert all(one.greedy for one in found if one.n_tokens == 1)
    assert any(one.greedy for one in found)
    near(found, answers(hf, requests))


def test_choices_of_one_token_are_one_request(model):
    before = model.info["usage"]["vllm_prompt_tokens"]
    context = "A context that occurs once:"
    found = answers(model, [Loglikelihood(context, letter) for letter in "ABCDEFGH"])
    after = model.info["usage"]["vllm_prompt_tokens"]
    assert {one.n_tokens for one in found} == {1}
    assert after - before == found[0].n_prompt_tokens


def test_rolling_loglikelihoods_are_those_of_the_hf_model(model, hf):
    texts = ["", "a", "short", "x" * (WINDOW - 2), "y" * (WINDOW - 1), "long " * WINDOW]
    requests = [Rolling(text) for text in texts]
    near(answers(model, requests), answers(hf, requests))


def test_greedy_texts_are_those_of_the_hf_model(model, hf_writing):
    requests = [
        *(Generate(f"{i}{SHOTS}", max_tokens=24) for i in range(4)),
        Generate(SHOTS, stop=("e", "\n"), max_tokens=40),
        Generate("z" * 2 * WINDOW, max_tokens=20),
        Generate("z" * (WINDOW - 5), max_tokens=300, options=(("fitting", True),)),
        Generate((Message("user", "Hello"),), max_tokens=12),
        Generate((Message("user", "Hello"), Message("assistant", "I")), max_tokens=3),
        Generate("no room", max_tokens=WINDOW),
        Generate("", max_tokens=4),
    ]
    for one, other in zip(
        answers(model, requests), answers(hf_writing, requests), strict=True
    ):
        assert (one.text, one.error, one.finish) == (
            other.text,
            other.error,
            other.finish,
        )
        assert one.n_prompt_tokens == other.n_prompt_tokens
        assert one.n_truncated == other.n_truncated
        assert one.n_tokens == other.n_tokens


def test_top_logprobs_are_those_of_the_hf_model(model, hf_writing):
    request = Generate(SHOTS, max_tokens=5, options=(("top_logprobs", 3),))
    (ours,), (theirs,) = answers(model, [request]), answers(hf_writing, [request])
    assert [token for token, _ in ours.top_logprobs] == [
        token for token, _ in theirs.top_logprobs
    ]
    for (_, one), (_, other) in zip(
        ours.top_logprobs, theirs.top_logprobs, strict=True
    ):
        assert [name for name, _ in one] == [name for name, _ in other]
        assert [value for _, value in one] == pytest.approx(
            [value for _, value in other], abs=NEAR
        )


def test_samples_do_not_depend_on_the_batch(model):
    requests = [
        Generate(SHOTS, max_tokens=20, temperature=1.0, repeat=i) for i in range(6)
    ]
    together = [r.text for r in answers(model, requests)]
    assert together == [answers(model, [one])[0].text for one in requests]
    assert len({*together}) > 1


def test_a_grammar_holds(model):
    grammar = (("grammar", '{"type": "regex", "value": "[ab]{4}"}'),)
    (response,) = answers(model, [Generate(SHOTS, max_tokens=20, options=grammar)])
    assert response.error == ""
    assert len(response.text) == 4
    assert {*response.text} <= {*"ab"}


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (("num_beams", 2), "the vllm model has no generation option 'num_beams'"),
        (("top_pp", 0.5), "no generation option 'top_pp'; did you mean 'top_p'?"),
        (("n", 2), "the vllm model takes no option 'n': use repeats of the task"),
        (("top_p", 2.0), "vLLM rejects the sampling parameters: top_p must be in"),
        (("top_p", "x"), "vLLM rejects the sampling parameters"),
        (("images", ("data:",)), "this model reads texts"),
        (("top_logprobs", 10**6), "vLLM rejects the request: Requested"),
    ],
)  # fmt: skip
def test_an_invalid_option_is_an_error_of_its_document(model, option, message):
    requests = [Generate(SHOTS, options=(option,)), Generate(SHOTS, max_tokens=2)]
    bad, good = answers(model, requests)
    assert message in bad.error
    assert good.error == ""


def test_an_invalid_temperature_is_an_error_of_its_document(model):
    (response,) = answers(model, [Generate(SHOTS, temperature=-1.0)])
    assert response.error == "temperature is -1.0; it must be a number, 0 or more"


def test_a_session_has_one_engine(model, folder):
    with pytest.raises(ModelError, match="vLLM runs one engine per session"):
        open_model(parse_spec(f"vllm:{folder},{ARGUMENTS}"))


@pytest.mark.parametrize(
    ("argument", "reason"),
    [
        ("max_num_seqs=many", "max_num_seqs: invalid int value: 'many'"),
        ("compilation_config=5", "compilation_config: Input should be an object"),
    ],
)
def test_an_invalid_value_is_rejected_before_the_model_is_loaded(
    folder, argument, reason
):
    with pytest.raises(OptionError) as error:
        check_ready(parse_spec(f"vllm:{folder},{argument}"))
    assert str(error.value) == f"vLLM rejects the vllm model's {reason}"


def test_the_fingerprint_is_known_before_the_model_is_open(model, folder):
    from pytest_evals.models.checkpoint import hash_file

    spec = parse_spec(f"vllm:{folder},{ARGUMENTS}")
    assert fingerprint_of(spec, hash_file) == model.fingerprint


def test_an_interrupted_batch_leaves_a_usable_engine(model):
    requests = [Generate(f"{SHOTS}{i}", max_tokens=8) for i in range(40)]
    stream = model.answer(requests)
    next(stream)
    stream.close()
    assert answers(model, [requests[0]])[0].error == ""


def test_a_reused_prefix_does_not_change_the_numbers(model, folder, hf):
    model.close()
    reusing = open_model(parse_spec(f"vllm:{folder},{ARGUMENTS},reuse_prefix=true"))
    try:
        assert reusing.info["scoring_path"] == "vllm+candidates+reuse_prefix"
        # the last ones have hits beyond their contexts, and are scored again
        again = [Loglikelihood("a", f"{SHOTS}{end}") for end in "xyz"]
        requests = CHOICES + LONG + again
        near(answers(reusing, requests), answers(hf, requests))
        usage = reusing.info["usage"]
        assert usage["vllm_cached_prompt_tokens"] > usage["vllm_prompt_tokens"] / 4
    finally:
        reusing.close()


TASK = """
task: letters
dataset_path: json
dataset_kwargs: {data_files: data.jsonl}
test_split: train
output_type: multiple_choice
doc_to_text: "{{q}}\\nAnswer:"
doc_to_choice: [A, B, C, D]
doc_to_target: a
metric_list: [{metric: acc}]
"""


def test_a_run_ends_cleanly_with_all_warnings_as_errors(folder, tmp_path):
    (tmp_path / "letters.yaml").write_text(TASK)
    (tmp_path / "data.jsonl").write_text(
        "".join(f'{{"q": "question {i}", "a": {i % 4}}}\n' for i in range(12))
    )
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    command = [sys.executable, "-W", "error", "-m", "pytest", "-q"]
    command += ["-p", "pytest_evals.plugin.hooks", f"--model=vllm:{folder},{ARGUMENTS}"]
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_PLUGINS": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (samples,) = tmp_path.glob(".evals/runs/*/samples_letters.jsonl")
    assert len(samples.read_text().splitlines()) == 12
    for sign in ("Traceback", "closed file", "leaked", "Logging error", "Triton"):
        assert sign not in done.stdout + done.stderr
