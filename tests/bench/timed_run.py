"""Measure the cost of a run of either harness from inside its process.

As a pytest plugin (``-p timed_run``) it measures this package; as a script it runs
lm-eval's command line and measures that:

    python timed_run.py --model hf --model_args pretrained=… --tasks …

Times and counts are written to the file that ``TIMED_RUN`` names. Tokens are counted at
the input of the network, padding included.
"""

from __future__ import annotations

import atexit
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any


def _clocks() -> tuple[float, float]:
    """Wall time, and CPU time of this process."""
    return time.time(), time.process_time()


class Watch:
    """Counts of a process, written at its end. Times are pairs, as in ``_clocks``."""

    def __init__(self) -> None:
        self.opened = (0.0, 0.0)
        self.inference = [0.0, 0.0]
        self.n_read = 0
        self.padding: list[Any] = []
        self.own: dict[str, int] = {}
        atexit.register(self.write)

    def open(self) -> None:
        """Note that the model is loaded; tokens of its self-tests do not count."""
        self.opened = _clocks()
        self.n_read = 0
        self.padding = []

    def add(self, start: tuple[float, float]) -> None:
        """Note that the model has worked since then."""
        for i, now in enumerate(_clocks()):
            self.inference[i] += now - start[i]

    def see(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Count a forward pass, without waiting for the device."""
        ids = kwargs.get("input_ids", args[0] if args else None)
        if ids is None:
            return
        mask = kwargs.get("attention_mask")
        self.n_read += ids.numel()
        if mask is not None and mask.dim() == 2 and mask.shape == ids.shape:
            self.padding.append((mask == 0).sum())
        elif mask is None and ids.dim() == 2:
            # both pad with token 0 on the right, and no real text ends with it here
            self.padding.append((ids.flip(1) != 0).cumsum(1).eq(0).sum())

    def write(self) -> None:
        """Write the measurements."""
        peak = 0
        torch = sys.modules.get("torch")
        if torch is not None and torch.cuda.is_available():
            peak = torch.cuda.max_memory_allocated()
        seen = {
            "opened": self.opened,
            "inference": self.inference,
            "n_read": self.own.get("n_read", self.n_read),
            "n_padding": self.own.get("n_padding", sum(map(int, self.padding))),
            "n_seen": self.n_read,
            "gpu_peak": peak,
        }
        Path(os.environ["TIMED_RUN"]).write_text(json.dumps(seen))


def _watch_ours(watch: Watch) -> None:
    """Count each forward pass of any model that this package loads from now on."""
    from pytest_evals.models.hf import model

    load = model.load

    def watched(settings: Any) -> Any:
        loaded = load(settings)
        body = loaded.model.base_model
        body.register_forward_pre_hook(watch.see, with_kwargs=True)
        return loaded

    model.load = watched


def _watch_theirs(watch: Watch) -> None:
    """Count each forward pass of any model that transformers loads from now on."""
    from transformers import AutoModelForCausalLM

    load = AutoModelForCausalLM.from_pretrained

    def watched(*args: Any, **kwargs: Any) -> Any:
        found = load(*args, **kwargs)
        model = found[0] if isinstance(found, tuple) else found
        model.base_model.register_forward_pre_hook(watch.see, with_kwargs=True)
        return found

    AutoModelForCausalLM.from_pretrained = watched


def pytest_configure(config: Any) -> None:
    """Measure this process, if it is the one that runs tests."""
    config.pluginmanager.register(_Ours(Watch()), "timed-run-ours")


class _Ours:
    """Measures this package."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch

    def pytest_evals_open_model(self, spec: str, config: Any) -> Any:
        """Open the model as the plugin does, and time each of its responses."""
        from pytest_evals.models.registry import open_model, parse_spec

        _watch_ours(self._watch)
        model = open_model(parse_spec(spec))
        self._watch.open()
        answer = model.answer

        def timed(requests: Any) -> Iterator[Any]:
            stream = answer(requests)
            while True:
                start = _clocks()
                pair = next(stream, None)
                self._watch.add(start)
                if pair is None:
                    break
                yield pair
            self._watch.own = dict(getattr(model, "counters", {}))

        model.answer = timed
        return model


def _timed(method: Callable[..., Any], watch: Watch) -> Callable[..., Any]:
    def timed(*args: Any, **kwargs: Any) -> Any:
        start = _clocks()
        try:
            return method(*args, **kwargs)
        finally:
            watch.add(start)

    return timed


def main() -> None:
    """Run lm-eval's command line."""
    watch = Watch()
    from lm_eval.__main__ import cli_evaluate

    if "pytest-evals" in sys.argv:
        from pytest_evals.harness import LM as model_class

        _watch_ours(watch)
    else:
        from lm_eval.models.huggingface import HFLM as model_class

        _watch_theirs(watch)
    begin = model_class.__init__

    def opened(self: Any, *args: Any, **kwargs: Any) -> None:
        begin(self, *args, **kwargs)
        watch.open()

    model_class.__init__ = opened
    for name in ("loglikelihood", "loglikelihood_rolling", "generate_until"):
        setattr(model_class, name, _timed(getattr(model_class, name), watch))
    cli_evaluate()


if __name__ == "__main__":
    main()
