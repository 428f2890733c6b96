"""The configuration of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pytest_evals.core.gate import Policy
from pytest_evals.core.reference import MIN_OVERLAP
from pytest_evals.run.start import Start

StopMode = Literal["off", "curtail", "auto"]
"""When tasks stop early, see ``--evals-stop``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunConfig:
    """The configuration of a run."""

    dir: Path  # the results folder: response cache, runs and baselines
    here: Path  # the folder that paths of baselines are relative to
    root: Path  # the suite's folder, whose commit names the order of early stopping
    started: Start
    name: str
    spec: str = ""  # the tested model's spec as typed; empty if it was opened elsewhere
    full_spec: str = ""
    judge: str = ""
    compare: str = ""
    """The baseline to compare with, or the folder of a run; may be empty."""
    label: str = ""  # the name of the model, if several are tested
    save: str = ""  # the name of the baseline to save this run as; may be empty
    save_failed: bool = False
    consent: str = ""  # the option for save_failed, for messages
    inconclusive: Policy = "warn"
    min_overlap: float = MIN_OVERLAP
    """Smallest share of a baseline's documents that a comparison needs."""
    stop: StopMode = "off"  # when tasks stop early, see --evals-stop
    max_errors: float = 1.0
    """The fraction of documents that may fail with a model error."""
    stop_error: float = 0.01
    """Probability, over all gates, that an early verdict differs from that of the full
    run."""
    order_seed: int | None = None
    """Seed of the order of documents, instead of the suite's commit."""
    chat: bool = False
    fills: bool = False
    """Whether documents that are not selected are filled from the cache."""
    keeps_records: bool = False
    """Whether results contain complete records, with prompts and rows."""
    writes: bool = True
    shows_images: bool = False  # whether samples have small images of datasets
    writes_to: Path | None = None  # results folder of the run's files, if not dir
    run_dir: Path | None = None  # folder of the run's files, if not in dir/runs
    shard: str = ""  # which part of the suite this run is, as K/N
    judges: bool = True
    options: Mapping[str, Any] = field(default_factory=dict)
