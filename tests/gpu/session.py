"""Measure the engine on one GPU, in one command.

    python tests/gpu/session.py session.json [--minutes 9] [--dry-run]

Needs torch, transformers and numpy; with pytest it runs ``tests/gpu`` too, with lm_eval
it measures lm-eval too. Figures are written to the file as soon as they are known, so
that a run that is cut off is still of use; a step that fails or takes too long is
recorded with its traceback. The same command again adds the figures that the file
lacks. ``--dry-run`` takes the same steps with small shapes on a CPU.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "bench")]

from pytest_evals.models.hf import kind as hf_kind  # noqa: E402

hf_kind._avoid_fragmentation()

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
    "dry": random_models.Size(2_048, 64, 128, 2, 4, 2),
    "1b": random_models.SIZES["1b"],
    "8b": random_models.Size(128_256, 4_096, 14_336, 32, 32, 8),
}
LETTERS = "ABCD"
MAX_LENGTH = 2048


STEP_S = 240
"""A step that takes longer is stopped."""


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
        self._path: Path = options.output
        self._end = time.monotonic() + 60 * options.minutes
        self._found: dict[str, dict[str, Any]] = {}
        if self._path.exists():
            self._found = json.loads(self._path.read_text())

    def has(self, name: str) -> bool:
        """Whether the file has the figures of a step."""
        found = self._found.get(name, {"skipped": ""})
        return "skipped" not in found and "error" not in found

    def step(self, name: str, run: Callable[[dict[str, Any]], None]) -> None:
        """Run a step unless the time is over. It puts its figures into a mapping, which
        keeps them if it fails."""
        left = self._end - time.monotonic()
        if left <= 0:
            self._found.setdefault(name, {"skipped": "the time was over"})
            self.save()
            return
        found = self._found[name] = {}
        start = time.perf_counter()
        try:
            with _limit(min(left, STEP_S)):
                run(found)
        except Exception:  # noqa: BLE001 - the next steps are worth as much
            found["error"] = traceback.format_exc()
        found["s"] = round(time.perf_counter() - start, 3)
        self.save()
        print(name, json.dumps(found, default=str)[:1_000], flush=True)

    def save(self) -> None:
        """Write all figures so far. The file is replaced as a whole: a full disk or the
        end of the process leaves the previous one."""
        new = self._path.with_name(self._path.name + ".new")
        try:
            new.write_text(json.dumps(self._found, indent=1, default=str) + "\n")
            new.replace(self._path)
        except OSError as error:
            print(f"{self._path}: {error}", flush=True)

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


@contextmanager
def _limit(seconds: float) -> Iterator[None]:
    def stop(*_: Any) -> None:
        raise TimeoutError(f"stopped after {seconds:.0f} s")

    signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


class Peak:
    """Peak memory on the device above what is allocated now."""

    def __init__(self, session: Session) -> None:
        self._is_known = session.device.type == "cuda"
        if self._is_known:
            torch.cuda.reset_peak_memory_stats()
            self._before = torch.cuda.memory_allocated()

    def mib(self) -> float | None:
        """MiB; ``None`` on a CPU."""
        if not self._is_known:
            return None
        return round((torch.cuda.max_memory_allocated() - self._before) / 2**20, 1)


def machine(session: Session, found: dict[str, Any]) -> None:
    """Versions, device, and the rate at which it multiplies large matrices."""
    n = 256 if session.dry else 8_192
    one = torch.randn(n, n, device=session.device, dtype=session.dtype)
    took = session.timed(lambda: one @ one, 20)["ms"] / 1e3
    session.rate = 2 * n**3 / max(took, 1e-9)
    gpu = session.device.type == "cuda"
    found |= {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "device": torch.cuda.get_device_name() if gpu else platform.processor(),
        "memory_gib": torch.cuda.mem_get_info()[1] / 2**30 if gpu else None,
        "tflops": round(session.rate / 1e12, 3),
    }


class Shape(NamedTuple):
    """Sizes of a call of attention."""

    rows: int
    n_queries: int
    n_keys: int
    causal: bool = False
    groups: int = 1


def kernels(session: Session, found: dict[str, Any]) -> None:
    """Kernel, times and graph builds of attention by shape, type, mask and cuDNN. New
    widths show the cost of a graph for each shape."""
    rows, width, prefix = (2, 32, 64) if session.dry else (16, 1024, 2048)
    shapes = {
        "causal": Shape(rows, width, width, causal=True),
        "causal, grouped": Shape(rows, width, width, causal=True, groups=4),
        "masked": Shape(rows, width, width),
        "masked after a prefix": Shape(rows, width, prefix + width),
        "decoding": Shape(8 * rows, 1, width),
    }
    dtypes = dict.fromkeys([session.dtype, torch.float32])
    try:
        for cudnn in (True, False):
            torch.backends.cuda.enable_cudnn_sdp(cudnn)
            for (name, shape), dtype in product(shapes.items(), dtypes):
                calls = [_attention(session, shape, dtype, d) for d in range(3)]
                one: dict[str, Any] = session.timed(calls[0])
                one["new_widths_ms"] = [
                    session.timed(call, 1)["first_ms"] for call in calls[1:]
                ]
                on = "on" if cudnn else "off"
                found[f"{name}, {str(dtype)[6:]}, cudnn {on}"] = one
                one["kernels"] = _kernel_names(session, calls[0])
                session.save()
    finally:
        torch.backends.cuda.enable_cudnn_sdp(True)


def _attention(
    session: Session, shape: Shape, dtype: torch.dtype, more: int
) -> Callable[[], Any]:
    heads, size = (4, 16) if session.dry else (32, 64)
    n_keys = shape.n_keys + 8 * more
    n_queries = shape.n_queries + 8 * more * shape.causal
    draw: dict[str, Any] = {"device": session.device, "dtype": dtype}
    query = torch.randn(shape.rows, heads, n_queries, size, **draw)
    key = torch.randn(shape.rows, heads // shape.groups, n_keys, size, **draw)
    mask = (
        None if shape.causal else torch.zeros(shape.rows, 1, n_queries, n_keys, **draw)
    )
    return partial(
        torch.nn.functional.scaled_dot_product_attention,
        query,
        key,
        key,
        attn_mask=mask,
        is_causal=shape.causal,
        enable_gqa=shape.groups > 1,
    )


def _kernel_names(session: Session, run: Callable[[], Any]) -> list[str]:
    from torch.profiler import ProfilerActivity, profile

    gpu = [ProfilerActivity.CUDA] if session.device.type == "cuda" else []
    with profile(activities=[ProfilerActivity.CPU, *gpu]) as seen:
        run()
        session.wait()
    events = [
        e
        for e in seen.key_averages()
        if "attention" in e.key or not e.key.startswith("aten::")
    ]
    order = "self_device_time_total" if gpu else "self_cpu_time_total"
    events.sort(key=lambda e: -getattr(e, order))
    return [e.key[:100] for e in events[:3]]


def correctness(session: Session, found: dict[str, Any]) -> None:
    """``tests/gpu``, if pytest is installed."""
    if find_spec("pytest") is None or session.dry:
        found["skipped"] = "dry run" if session.dry else "no pytest"
        return
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    for setting in ("addopts=--import-mode=importlib", "filterwarnings=default"):
        command += ["-o", setting]
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    output = session.folder / "tests"
    try:
        with output.open("w") as stream:
            done = subprocess.run(
                [*command, str(ROOT / "tests" / "gpu")],
                stdout=stream,
                stderr=subprocess.STDOUT,
                check=False,
                env={**os.environ, "PYTHONPATH": path},
            )
        found["status"] = done.returncode
    finally:
        found["output"] = output.read_text()[-6_000:]


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


def engine(session: Session, name: str) -> tuple[Any, Any]:
    """A random Llama on the device, in our engine; and its network."""
    from pytest_evals.models.hf import model as hf
    from pytest_evals.models.hf.llama import Llama
    from pytest_evals.models.hf.llama_checkpoint import read_config
    from pytest_evals.models.hf.loader import LoadedModel
    from pytest_evals.models.hf.settings import HfSettings
    from pytest_evals.models.tokens.loader import load_tokenizer, origin

    size = LLAMAS[name]
    folder = session.folder / name
    folder.mkdir(exist_ok=True)
    random_models._make_tokenizer(min(size.vocabulary // 2, 32_768), folder)
    ends = {"bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 0}
    given = {
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "vocab_size": size.vocabulary,
        "hidden_size": size.hidden,
        "hidden_act": "silu",
        "intermediate_size": size.inner,
        "num_hidden_layers": size.layers,
        "num_attention_heads": size.heads,
        "num_key_value_heads": size.kv_heads,
        "max_position_embeddings": 40_000,
        "rms_norm_eps": 1e-5,
        "rope_theta": 500_000.0,
        "dtype": str(session.dtype)[6:],
        **ends,
    }
    (folder / "config.json").write_text(json.dumps(given))
    (folder / "generation_config.json").write_text(json.dumps(ends))
    settings = HfSettings(target=str(folder))
    config = read_config(settings)
    assert config is not None
    with torch.device("meta"):
        network = Llama(config, origin(settings))
    network.to(session.dtype).to_empty(device=session.device)
    torch.manual_seed(0)
    with torch.no_grad():
        for weight in network.parameters():
            # The usual spread, by which states have the same size in all layers.
            if weight.dim() > 1:
                weight.normal_(std=weight.shape[1] ** -0.5)
            else:
                weight.fill_(1)
    network.model.frequencies = network.model.frequencies.to(session.device)
    network.generation_config = transformers.GenerationConfig(**ends)
    loaded = LoadedModel(
        model=network.eval(),
        tokenizer=load_tokenizer(settings),
        settings=settings,
        max_length=MAX_LENGTH,
        n_embeddings=size.vocabulary,
    )
    usual, hf.load = hf.load, lambda _: loaded
    try:
        return hf.HfModel(name, settings), network
    finally:
        hf.load = usual


class Opened:
    """A model in our engine, its network, and its rate of dense prefill."""

    model: Any = None
    network: Any = None
    dense = 0.0

    def open(self, name: str, session: Session, found: dict[str, Any]) -> None:
        """Make the model, and measure the rate of full causal rows without a head."""
        self.model, self.network = engine(session, name)
        rows, width = (2, 64) if session.dry else (16, 1024)
        ids = torch.randint(1, 1000, (rows, width), device=session.device)
        with torch.inference_mode():
            took = session.timed(partial(self.network.base_model, ids), 3)["ms"]
        self.dense = rows * width / took * 1e3
        found |= {
            "path": self.model.info["scoring_path"],
            "decoder": type(self.model._engine._steps()).__name__,
            "batch_tokens": self.model.info["batch_tokens"],
            "dense_tokens_per_s": round(self.dense),
        }

    def close(self, session: Session, found: dict[str, Any]) -> None:
        """Free its memory."""
        self.model.close()
        self.model = self.network = None
        if session.device.type == "cuda":
            torch.cuda.empty_cache()
            found["allocated_mib"] = torch.cuda.memory_allocated() >> 20

    def figures(
        self, kind: str, n: int, session: Session, found: dict[str, Any]
    ) -> None:
        """Cost of ``n`` documents of a kind in the engine."""
        model, body = self.model, self.network.base_model
        requests = list(dict.fromkeys(requests_of(kind, n)))
        before = dict(model.counters)
        peak = Peak(session)
        cpu, start = time.process_time(), time.perf_counter()
        first = 0.0
        errors = 0
        with closing(model.answer(requests)) as answers:
            for _, response in answers:
                first = first or time.perf_counter() - start
                errors += bool(response.error)
        took = time.perf_counter() - start
        counts = {name: n - before[name] for name, n in model.counters.items()}
        n_weights = sum(weight.numel() for weight in body.layers.parameters())
        found |= {
            "requests": len(requests),
            "errors": errors,
            "wall_s": round(took, 3),
            "cpu_s": round(time.process_time() - cpu, 3),
            "first_response_s": round(first, 3),
            **counts,
            "peak_mib": peak.mib(),
        }
        rate = counts["n_read"] / took
        found["share_of_dense_prefill"] = round(rate / self.dense, 4)
        found["share_of_matrix_rate"] = round(2 * n_weights * rate / session.rate, 4)

    def prefixes(self, session: Session, found: dict[str, Any]) -> None:
        """Scoring paths by length of the prefix: seconds, and peak memory above the
        weights. Dense masks are omitted if they would not fit."""
        import numpy as np

        from pytest_evals.models.engine.device_memory import BatchBudget
        from pytest_evals.models.hf.forward import Forward, TokenCounts
        from pytest_evals.models.hf.scoring import strategies
        from pytest_evals.models.hf.scoring.padded_strategy import PaddedStrategy
        from pytest_evals.models.tokens.spans import ScoredSpan

        plain = PaddedStrategy(Forward(self.network), TokenCounts())
        shape = strategies.SHAPES.get(session.device.type, strategies.OTHER_SHAPE)
        shape = replace(shape, width=64, gain=8) if session.dry else shape
        draw = np.random.default_rng(0)
        for depth in (32, 128) if session.dry else (512, 2048, 8192, 32_768):
            prefix = draw.integers(1, 1000, depth)
            ends = draw.integers(1, 1000, (20 if session.dry else 400, 60))
            spans = [ScoredSpan(np.append(prefix, e).astype(np.int32), 4) for e in ends]
            for way in strategies._candidates(plain.forward):
                if way.name == "prefix" or (way.name == "packed" and depth > 8192):
                    continue
                path = way.tried.path(plain, shape)

                def run(path: Any = path, spans: Any = spans) -> None:
                    path.forget()
                    list(path.score(spans, BatchBudget(2**16)))

                peak = Peak(session)
                one: dict[str, Any] = session.timed(run, 2)
                found[f"{way.name}, {depth}"] = one | {"peak_mib": peak.mib()}
                path.forget()
                session.save()

    def lm_eval(self, n: int, session: Session, found: dict[str, Any]) -> None:
        """lm-eval's own model class on the same weights and letters."""
        if find_spec("lm_eval") is None:
            found["skipped"] = "no lm_eval"
            return
        from lm_eval.models.huggingface import HFLM

        theirs = HFLM(
            pretrained=self.network._transformers_model,
            tokenizer=self.model.tokenizer,
            batch_size=16,
            max_length=MAX_LENGTH,
        )
        requests = [(r.context, r.continuation) for r in requests_of("letters", n)]
        start = time.perf_counter()
        scores = theirs.loglikelihood([SimpleNamespace(args=pair) for pair in requests])
        found |= {"requests": len(requests), "wall_s": time.perf_counter() - start}
        pairs = list(map(Loglikelihood, *zip(*requests, strict=True)))
        ours = dict(self.model.answer(pairs))
        apart = [abs(ours[i].logprob - score) for i, (score, _) in enumerate(scores)]
        found["widest"] = max(apart)


def steps(
    session: Session,
) -> Iterator[tuple[str, Callable[[Session, dict[str, Any]], None]]]:
    """The steps that the file lacks, most important first."""
    yield "machine", machine  # later steps need its rate
    for step in (kernels, correctness):
        if not session.has(step.__name__):
            yield step.__name__, step
    n_docs = {"letters": 2000, "full_text": 2000, "no_shots": 2000, "rolling": 200}
    for name in ("dry",) if session.dry else ("1b", "8b"):
        opened = Opened()
        todo: dict[str, Callable[[Session, dict[str, Any]], None]] = {
            kind: partial(opened.figures, kind, 4 if session.dry else n)
            for kind, n in {**n_docs, "generation": 500}.items()
        }
        todo["prefixes"] = opened.prefixes
        todo["lm_eval"] = partial(opened.lm_eval, 4 if session.dry else 100)
        left = {k: run for k, run in todo.items() if not session.has(f"{name}: {k}")}
        if not left:
            continue
        yield f"{name}: open", partial(opened.open, name)
        if opened.dense:
            yield from ((f"{name}: {kind}", run) for kind, run in left.items())
            yield f"{name}: close", opened.close


def main() -> None:
    """Run all steps."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output", type=Path)
    parser.add_argument("--minutes", type=float, default=9)
    parser.add_argument("--dry-run", action="store_true")
    session = Session(parser.parse_args())
    for name, run in steps(session):
        session.step(name, partial(run, session))


if __name__ == "__main__":
    main()
