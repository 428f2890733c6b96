"""CPU seconds of ``hf:`` and ``vllm:`` models with the model open, on a CPU::

    tests/vllm/environment.sh DIR
    PYTHONPATH=. DIR/bin/python tests/bench/in_vllm.py [--model 60m] [--docs 24]

The same requests go to ``hf:``, to vLLM with plain prompt log-probabilities, to
``vllm:`` and to ``vllm:`` with ``reuse_prefix=true``; the prompt tokens that are
computed are in parentheses.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from string import ascii_uppercase
from typing import Any

import random_models
from synthetic_texts import Writer
from transformers import AutoTokenizer

from pytest_evals.core.request import Generate, Loglikelihood, Request, Rolling
from pytest_evals.models.registry import open_model, parse_spec

VLLM = "dtype=float32,enforce_eager=true,max_num_seqs=32,block_size=32"
WAYS = {
    "hf": "hf:{},dtype=float32",
    "vllm, plain": f"vllm:{{}},{VLLM}",
    "vllm": f"vllm:{{}},{VLLM}",
    "vllm, reuse_prefix": f"vllm:{{}},{VLLM},reuse_prefix=true",
}


def workloads(path: Path, n: int) -> Mapping[str, Sequence[Request]]:
    """Requests of ``n`` documents by kind of task; letters have one token each."""
    tokenizer = AutoTokenizer.from_pretrained(path)
    letters = [f" {c}" for c in ascii_uppercase if len(tokenizer.encode(f" {c}")) == 1]
    writer = Writer(1)

    def document() -> tuple[str, list[str]]:
        return f"Question: {writer.text(75)}\nAnswer:", [
            f" {writer.phrase(k)}" for k in (4, 6, 6, 8)
        ]

    shots = "".join(
        f"{text}{ends[0]}\n\n" for text, ends in (document() for _ in range(5))
    )
    documents = [document() for _ in range(n)]
    texts = [writer.text(40 + 400 * i // n) for i in range(n)]
    return {
        "5-shot letters": [
            Loglikelihood(shots + text, letter)
            for text, _ in documents
            for letter in letters[:4]
        ],
        "5-shot full text": [
            Loglikelihood(shots + text, end) for text, ends in documents for end in ends
        ],
        "0-shot full text": [
            Loglikelihood(text, end) for text, ends in documents for end in ends
        ],
        "generation": [Generate(text, max_tokens=96) for text in texts],
        "rolling": [Rolling(text) for text in texts],
    }


def computed_tokens(model: Any) -> int:
    """Prompt tokens that a model has computed so far."""
    usage = model.info.get("usage") or {}
    if "vllm_prompt_tokens" in usage:
        return int(usage["vllm_prompt_tokens"] - usage["vllm_cached_prompt_tokens"])
    return int(model.counters["n_read"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="60m", choices=random_models.SIZES)
    parser.add_argument("--docs", type=int, default=24)
    given = parser.parse_args()
    os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "2")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / given.model
        random_models.make_model(given.model, path)
        for name, spec in WAYS.items():
            model: Any = open_model(parse_spec(spec.format(path)))
            if name == "vllm, plain":
                model._scoring.has_candidates = False
            for kind, requests in workloads(path, given.docs).items():
                list(model.answer(requests[:1]))
                tokens, begun = computed_tokens(model), time.process_time()
                failed = [r.error for _, r in model.answer(requests) if r.error]
                took_s = time.process_time() - begun
                n_tokens = computed_tokens(model) - tokens
                shown = f" ({n_tokens:,} tokens)" if n_tokens else ""
                print(f"{name}: {kind}: {took_s:.1f} CPU s{shown}", *failed[:1])
            model.close()


if __name__ == "__main__":
    main()
