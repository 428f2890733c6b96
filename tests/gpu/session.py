"""Measure the engine on one GPU, in one command.

    python tests/gpu/session.py session.json [--minutes 18] [--dry-run]

Needs torch, transformers and numpy; with pytest it runs ``tests/gpu`` too, with lm_eval
it measures lm-eval too. Each step is written to the file as soon as it is done, so that
a run that is cut off is still of use; a step that fails is recorded with its traceback.
``--dry-run`` takes the same steps with small shapes on any device.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "bench")]

import random_models  # noqa: E402
import synthetic_tasks  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402
from synthetic_texts import Writer  # noqa: E402

from pytest_evals.core.request import (  # noqa: E402
    Generate,
    Loglikelihood,
    Request,
    Rolling,
)

LLAMAS = {
    "dry": random_models.Size(1_024, 64, 128, 2, 4, 2),
    "1b": random_models.SIZES["1b"],
    "8b": random_models.Size(128_256, 4_096, 14_336, 32, 32, 8),
}
LETTERS = "ABCD"


class Session:
    """Runs steps, and writes their results."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.dry = options.dry_run
        has_gpu = torch.cuda.is_available()
        self.device = torch.device("cuda" if has_gpu and not self.dry else "cpu")
        self.dtype = torch.float32 if self.dry else torch.bfloat16
        self.rate = 0.0
        self._files = tempfile.TemporaryDirectory(prefix="evals-session-")
        self.folder = Path(self._files.name)
        self._path = options.output
        self._end = time.monotonic() + 60 * options.minutes
        self.found: dict[str, Any] = {}

    def step(self, name: str, run: Callable[[], Any]) -> None:
        """Run a step unless the time is over."""
        if time.monotonic() > self._end:
            self.found[name] = {"skipped": "the time was over"}
        else:
            start = time.perf_counter()
            try:
                found = run()
            except Exception:  # noqa: BLE001 - the next steps are worth as much
                found = {"error": traceback.format_exc()}
            self.found[name] = {"s": round(time.perf_counter() - start, 3), **found}
        self._path.write_text(json.dumps(self.found, indent=1) + "\n")
        print(name, json.dumps(self.found[name])[:300], flush=True)

    def wait(self) -> None:
        """Wait until the device is idle."""
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    def timed(self, run: Callable[[], Any], n: int = 5) -> dict[str, float]:
        """Milliseconds of the first call, and of later ones: until the call returns,
        and until the device is done."""
        self.wait()
        start = time.perf_counter()
        run()
        self.wait()
        first = time.perf_counter() - start
        start = time.perf_counter()
        for _ in range(n):
            run()
        host = time.perf_counter() - start
        self.wait()
        total = time.perf_counter() - start
        seconds = {"first_ms": first, "host_ms": host / n, "ms": total / n}
        return {name: round(1e3 * value, 3) for name, value in seconds.items()}


def machine(session: Session) -> dict[str, Any]:
    """Versions, device, and the rate at which it multiplies large matrices."""
    n = 256 if session.dry else 8_192
    one = torch.randn(n, n, device=session.device, dtype=session.dtype)
    took = session.timed(lambda: one @ one, 20)["ms"] / 1e3
    session.rate = 2 * n**3 / max(took, 1e-9)
    gpu = session.device.type == "cuda"
    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "device": torch.cuda.get_device_name() if gpu else platform.processor(),
        "memory_gib": torch.cuda.mem_get_info()[1] / 2**30 if gpu else None,
        "tflops": round(session.rate / 1e12, 3),
    }


def kernels(session: Session) -> dict[str, Any]:
    """Kernel, times and graph builds of attention by shape, type, mask and cuDNN. New
    widths show the cost of a graph for each shape."""
    heads, size = (4, 16) if session.dry else (32, 64)
    rows, width, prefix = (2, 32, 64) if session.dry else (16, 1024, 2048)
    shapes = {
        "causal": (rows, width, width, True),
        "masked": (rows, width, width, False),
        "masked after a prefix": (rows, width, prefix + width, False),
        "decoding": (8 * rows, 1, width, False),
    }
    dtypes = [session.dtype, torch.float32]
    found: dict[str, Any] = {}
    for cudnn in (True, False):
        torch.backends.cuda.enable_cudnn_sdp(cudnn)
        for dtype in dict.fromkeys(dtypes):
            for name, shape in shapes.items():
                key = f"{name}, {str(dtype)[6:]}, cudnn {'on' if cudnn else 'off'}"
                calls = [
                    _attention(session, shape, heads, size, d, dtype) for d in range(3)
                ]
                found[key] = session.timed(calls[0]) | {
                    "new_widths_ms": [
                        session.timed(call, 1)["first_ms"] for call in calls[1:]
                    ],
                    "kernels": _kernel_names(calls[0]),
                }
    torch.backends.cuda.enable_cudnn_sdp(True)
    return found


def _attention(
    session: Session,
    shape: tuple[int, int, int, bool],
    heads: int,
    size: int,
    more: int,
    dtype: torch.dtype,
) -> Callable[[], Any]:
    rows, n_queries, n_keys, causal = shape
    n_keys += 8 * more
    n_queries += 8 * more if causal else 0
    draw: dict[str, Any] = {"device": session.device, "dtype": dtype}
    query = torch.randn(rows, heads, n_queries, size, **draw)
    key = torch.randn(rows, heads, n_keys, size, **draw)
    mask = None if causal else torch.zeros(rows, 1, n_queries, n_keys, **draw)
    attend = torch.nn.functional.scaled_dot_product_attention
    return lambda: attend(query, key, key, attn_mask=mask, is_causal=causal)


def _kernel_names(run: Callable[[], Any]) -> list[str]:
    from torch.profiler import ProfilerActivity, profile

    gpu = [ProfilerActivity.CUDA] if torch.cuda.is_available() else []
    with profile(activities=[ProfilerActivity.CPU, *gpu]) as seen:
        run()
    events = seen.key_averages()
    events = [
        e for e in events if "attention" in e.key or not e.key.startswith("aten::")
    ]
    order = "self_device_time_total" if gpu else "self_cpu_time_total"
    events.sort(key=lambda e: -getattr(e, order, 0))
    return [e.key[:100] for e in events[:3]]


def correctness(session: Session) -> dict[str, Any]:
    """``tests/gpu``, if pytest is installed."""
    if find_spec("pytest") is None or session.dry:
        return {"skipped": "no pytest" if not session.dry else "dry run"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [
            *command,
            "-o",
            "addopts=--import-mode=importlib",
            str(ROOT / "tests" / "gpu"),
        ],
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    return {"status": done.returncode, "output": done.stdout[-6_000:]}


def requests_of(kind: str, n: int) -> list[Request]:
    """Requests of ``n`` documents of a kind of task."""
    writer = Writer(5)
    if kind == "rolling":
        return [
            Rolling(writer.text(int(60 * 20 ** writer.random.random())))
            for _ in range(n)
        ]
    if kind == "generation":
        lengths = [int(30 * 12 ** writer.random.random()) for _ in range(n)]
        return [Generate(writer.text(m) + "\nAnswer:", ("\n\n",), 96) for m in lengths]
    n_words = 95 if kind == "letters" else 75
    rows = synthetic_tasks._choices(7, n + 5, n_words, [4, 6, 8])
    shots, found = "", []
    for i, row in enumerate(rows):
        lines = [f"{a}. {b}" for a, b in zip(LETTERS, row["choices"], strict=True)]
        question = "\n".join(
            [row["question"], *(lines if kind == "letters" else []), "Answer:"]
        )
        ends = list(LETTERS) if kind == "letters" else row["choices"]
        if i < 5:
            shots += f"{question} {ends[row['answer']]}\n\n" * (kind != "no_shots")
        else:
            found += [Loglikelihood(shots + question, f" {end}") for end in ends]
    return found


def engine(session: Session, name: str) -> Any:
    """A random Llama on the device, in our engine."""
    from pytest_evals.models.hf import model as hf
    from pytest_evals.models.hf.loader import LoadedModel, load_tokenizer
    from pytest_evals.models.hf.settings import HfSettings

    size = LLAMAS[name]
    folder = session.folder / "tokenizer"
    if not folder.exists():
        folder.mkdir()
        random_models._make_tokenizer(min(size.vocabulary, 32_768), folder)
    config = transformers.LlamaConfig(
        vocab_size=size.vocabulary,
        hidden_size=size.hidden,
        intermediate_size=size.inner,
        num_hidden_layers=size.layers,
        num_attention_heads=size.heads,
        num_key_value_heads=size.kv_heads,
        max_position_embeddings=40_000,
        bos_token_id=0,
        eos_token_id=0,
        pad_token_id=0,
        dtype=session.dtype,
        initializer_range=random_models.SPREAD,
    )
    torch.manual_seed(0)
    torch.set_default_dtype(session.dtype)
    with torch.device(session.device):
        weights = transformers.AutoModelForCausalLM.from_config(config).eval()
    torch.set_default_dtype(torch.float32)
    settings = HfSettings(target=str(folder))
    loaded = LoadedModel(
        model=weights,
        tokenizer=load_tokenizer(settings),
        settings=settings,
        max_length=2048,
        n_embeddings=size.vocabulary,
    )
    usual, hf.load = hf.load, lambda _: loaded
    try:
        model = hf.HfModel(name, settings)
    finally:
        hf.load = usual
    model.loaded = loaded
    return model


def dense_prefill(session: Session, model: Any) -> float:
    """Tokens a second of full causal rows, without a head."""
    rows, width = (2, 64) if session.dry else (16, 1024)
    ids = torch.randint(1, 1000, (rows, width), device=session.device)
    body = model.loaded.model.base_model
    with torch.inference_mode():
        took = session.timed(lambda: body(input_ids=ids, use_cache=False), 3)["ms"]
    return rows * width / took * 1e3


def open_model(session: Session, name: str, opened: dict[str, Any]) -> dict[str, Any]:
    """Put a loaded model and its rate of dense prefill into ``opened``."""
    model = engine(session, name)
    opened.update(model=model, rate=dense_prefill(session, model))
    path, tokens = model.info["scoring_path"], model.info["batch_tokens"]
    rate = round(opened["rate"])
    return {"path": path, "batch_tokens": tokens, "dense_tokens_per_s": rate}


def figures(
    session: Session, model: Any, kind: str, n: int, dense: float
) -> dict[str, Any]:
    """Cost of ``n`` documents of a kind in the engine."""
    weights = model.loaded.model
    requests = list(dict.fromkeys(requests_of(kind, n)))
    before = dict(model.counters)
    cpu, start = time.process_time(), time.perf_counter()
    first = 0.0
    errors = 0
    for _, response in model.answer(requests):
        first = first or time.perf_counter() - start
        errors += bool(response.error)
    took = time.perf_counter() - start
    n_read = model.counters["n_read"] - before["n_read"]
    n_padding = model.counters["n_padding"] - before["n_padding"]
    n_weights = weights.num_parameters(exclude_embeddings=True)
    return {
        "requests": len(requests),
        "errors": errors,
        "wall_s": round(took, 3),
        "cpu_s": round(time.process_time() - cpu, 3),
        "first_response_s": round(first, 3),
        "n_read": n_read,
        "n_padding": n_padding,
        "share_of_matrix_rate": round(2 * n_weights * n_read / took / session.rate, 4),
        "share_of_dense_prefill": round(n_read / took / dense, 4),
    }


def long_prefixes(session: Session, model: Any) -> dict[str, Any]:
    """Scoring paths by length of the prefix: seconds, and peak memory above the
    weights. Dense masks are omitted if they would not fit."""
    import numpy as np

    from pytest_evals.models.hf.batches import BatchBudget
    from pytest_evals.models.hf.forward import Forward
    from pytest_evals.models.hf.scoring import strategies
    from pytest_evals.models.hf.scoring.padded_strategy import PaddedStrategy
    from pytest_evals.models.hf.scoring.scored_spans import ScoredSpan
    from pytest_evals.models.hf.token_counts import TokenCounts

    plain = PaddedStrategy(Forward(model.loaded.model), TokenCounts())
    shape = strategies.SHAPES.get(session.device.type, strategies.OTHER_SHAPE)
    shape = replace(shape, width=64, gain=8) if session.dry else shape
    draw, found = np.random.default_rng(0), {}
    for depth in (32, 128) if session.dry else (512, 2048, 8192, 32_768):
        prefix = draw.integers(1, 1000, depth)
        ends = draw.integers(1, 1000, (20 if session.dry else 400, 60))
        spans = [ScoredSpan(np.append(prefix, e).astype(np.int32), 4) for e in ends]
        for way in strategies._candidates(plain.forward):
            if way.name == "prefix" or (way.name == "packed" and depth > 8192):
                continue
            path = way.tried.path(plain, shape)
            if session.device.type == "cuda":
                torch.cuda.reset_peak_memory_stats()
                held = torch.cuda.memory_allocated()

            def run(path: Any = path, spans: Any = spans) -> None:
                path.forget()
                list(path.score(spans, BatchBudget(2**16)))

            one = session.timed(run, 2)
            if session.device.type == "cuda":
                one["peak_mib"] = (torch.cuda.max_memory_allocated() - held) / 2**20
            found[f"{way.name}, {depth}"] = one
    return found


def lm_eval_figures(session: Session, model: Any, n: int) -> dict[str, Any]:
    """lm-eval's own model class on the same weights and letters."""
    if find_spec("lm_eval") is None:
        return {"skipped": "no lm_eval"}
    from lm_eval.models.huggingface import HFLM

    loaded = model.loaded
    theirs = HFLM(pretrained=loaded.model, tokenizer=loaded.tokenizer, batch_size=16)
    requests = [(one.context, one.continuation) for one in requests_of("letters", n)]
    start = time.perf_counter()
    found = theirs.loglikelihood([SimpleNamespace(args=pair) for pair in requests])
    took = time.perf_counter() - start
    ours = dict(model.answer(list(map(Loglikelihood, *zip(*requests, strict=True)))))
    apart = max(abs(ours[i].logprob - one[0]) for i, one in enumerate(found))
    return {"requests": len(requests), "wall_s": round(took, 3), "widest": apart}


def steps(session: Session) -> Iterator[tuple[str, Callable[[], Any]]]:
    """The steps, most important first."""
    yield "machine", lambda: machine(session)
    yield "kernels", lambda: kernels(session)
    yield "correctness", lambda: correctness(session)
    for name in ("dry",) if session.dry else ("1b", "8b"):
        opened: dict[str, Any] = {}
        yield f"{name}: open", lambda n=name, o=opened: open_model(session, n, o)
        if "model" not in opened:
            continue
        model, rate = opened["model"], opened["rate"]
        n_docs = {"letters": 2000, "full_text": 2000, "no_shots": 2000, "rolling": 200}
        for kind, n in {**n_docs, "generation": 500}.items():
            n = 4 if session.dry else n
            yield (
                f"{name}: {kind}",
                lambda *_, k=kind, n=n, m=model, r=rate: figures(session, m, k, n, r),
            )
        yield f"{name}: prefixes", lambda m=model: long_prefixes(session, m)
        n = 4 if session.dry else 100
        yield f"{name}: lm_eval", lambda m=model, n=n: lm_eval_figures(session, m, n)
        model.close()


def main() -> None:
    """Run all steps."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output", type=Path)
    parser.add_argument("--minutes", type=float, default=18)
    parser.add_argument("--dry-run", action="store_true")
    session = Session(parser.parse_args())
    for name, run in steps(session):
        session.step(name, run)


if __name__ == "__main__":
    os.environ.setdefault("PYTORCH_ALLOC_CONF", "expandable_segments:True")
    main()
