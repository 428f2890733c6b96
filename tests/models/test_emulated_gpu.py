"""Models on an emulated GPU give the numbers of the CPU, with the default device."""

from __future__ import annotations

import pytest

from pytest_evals.core.request import Generate, Loglikelihood, Rolling
from pytest_evals.models.hf.scoring import strategies
from pytest_evals.models.registry import open_model, parse_spec
from tests.models.emulated_gpu import emulated_gpus

pytestmark = pytest.mark.nightly

SHOTS = "The cat is on the mat. Question: is it big? Answer: no\n\n"
REQUESTS = [
    *(
        Loglikelihood(f"{SHOTS}Question: is {animal} big? Answer:", end)
        for animal in ("a dog", "the king", "a cat")
        for end in (" yes", " a big dog", " no one")
    ),
    *(Loglikelihood(f"{SHOTS}Is a {n}?", end) for n in ("cat", "dog") for end in "AB"),
    Loglikelihood("the dog", " on a mat"),
    *(Rolling("the dog on a mat. " * n) for n in (1, 12)),
    *(Generate("the cat " * n, ("\n\n", "g"), 8) for n in (1, 2, 9)),
    *(
        Generate("the dog", (), 8, 0.8, options=(("do_sample", True), *more))
        for more in ([], [("top_k", 5)], [("top_p", 0.9)])
    ),
    Generate("a dog", (), 4, options=(("num_beams", 2),)),
    Generate("a dog", (), 8, options=(("repetition_penalty", 1.3),)),
]
CASES = [
    ("trained", "", "cascade"),
    ("trained", "", "packed"),
    ("trained", "attn_implementation=sdpa", "cascade"),
    ("trained", "attn_implementation=sdpa", "packed"),
    ("gemma2", "", "cascade"),
    ("gpt2", "", "cascade"),
    ("bloom", "", "prefix"),
    ("mamba", "", "plain"),
]


@pytest.fixture(scope="module")
def answers(saved_model, tiny_model_path):
    """A function from a kind of model and arguments to the model's metadata and
    answers."""

    def of(kind, *arguments):
        folder = tiny_model_path if kind == "trained" else saved_model(kind)
        parts = [f"hf:{folder}", *(part for part in arguments if part)]
        model = open_model(parse_spec(",".join(parts)))
        found = dict(model.answer(REQUESTS))
        info = {
            "device": model.info["device"],
            "path": model.info["scoring_path"],
            "decoder": type(model._engine._steps()).__name__,
            "notes": model.notes,
        }
        model.close()
        return info, [found[i] for i in range(len(REQUESTS))]

    return of


def compare(expected, found, most=1e-3):
    for one, other in zip(expected, found, strict=True):
        assert one.error == other.error == ""
        assert one.text == other.text
        assert one.greedy == other.greedy
        if one.logprob is not None:
            assert other.logprob == pytest.approx(one.logprob, rel=1e-4, abs=most)


@pytest.mark.parametrize(("kind", "more", "path"), CASES)
def test_a_gpu_gives_the_numbers_of_the_cpu(kind, more, path, answers, monkeypatch):
    """Without a device named, on the same path through the code: the self-tests at load
    time take a slower one after an error."""
    if path == "packed":
        usual = strategies._candidates
        monkeypatch.setattr(
            strategies,
            "_candidates",
            lambda forward: (c for c in usual(forward) if c.name != "cascade"),
        )
    info, expected = answers(kind, "device=cpu", more)
    with emulated_gpus():
        info_gpu, found = answers(kind, more)
    assert info["path"] == path
    assert info_gpu == info | {"device": "cuda:0"}
    compare(expected, found)
