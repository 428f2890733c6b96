"""The configuration of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pytest_evals.core.gate import Policy
from pytest_evals.run.start import Start

StopMode = Literal["off", "curtail", "auto"]
"""When tasks stop early, see ``--evals-stop``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunConfig:
    """The configuration of a run.

    Args:
        dir: The results folder: response cache, runs and baselines.
        here: The folder that paths of baselines are relative to.
        root: The suite's folder, whose commit names the order of early stopping.
        spec: The tested model's spec as typed; empty if it was opened elsewhere.
        compare: The baseline to compare with, or the folder of a run; may be empty.
        save: The name of the baseline to save this run as; may be empty.
        consent: The option for ``save_failed``, for messages.
        stop: When tasks stop early, see ``--evals-stop``.
        stop_error: Probability, over all gates, that an early verdict differs from that
            of the full run.
        order_seed: Seed of the order of documents, instead of the suite's commit.
        fills: Whether documents that are not selected are filled from the cache.
        keeps_records: Whether results contain complete records, with prompts and rows.
        writes_to: Folder of the run, if not in ``dir``.
    """

    dir: Path
    here: Path
    root: Path
    started: Start
    name: str
    spec: str = ""
    full_spec: str = ""
    judge: str = ""
    compare: str = ""
    save: str = ""
    save_failed: bool = False
    consent: str = ""
    inconclusive: Policy = "warn"
    stop: StopMode = "off"
    stop_error: float = 0.01
    order_seed: int | None = None
    chat: bool = False
    fills: bool = False
    keeps_records: bool = False
    writes: bool = True
    writes_to: Path | None = None
    judges: bool = True
    options: Mapping[str, Any] = field(default_factory=dict)
