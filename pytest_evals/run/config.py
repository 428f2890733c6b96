"""The configuration of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pytest_evals.core.gate import Policy
from pytest_evals.run.start import Start

StopMode = Literal["off", "curtail", "auto"]
"""When a task is stopped, see ``--evals-stop``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunConfig:
    """The configuration of a run.

    Args:
        dir: The results folder: stored responses, runs and baselines.
        here: The folder that paths of baselines are relative to.
        root: The suite's folder, whose commit names the order of early stopping.
        started: When the run started.
        name: Of which the name of the run's folder is made.
        spec: The tested model's spec as it was given; empty if it was opened elsewhere.
        full_spec: The spec as it is opened.
        judge: The judge's spec or name.
        compare: The baseline to compare with, or the folder of a run; may be empty.
        save: The name to save this run as a baseline; may be empty.
        save_failed: Whether a failed run is saved.
        consent: How a user asks for ``save_failed``, for messages.
        inconclusive: What becomes of inconclusive gates.
        stop: When a task is stopped, see ``--evals-stop``.
        stop_error: Probability, over all gates, of an early verdict that is not that of
            the full run.
        order_seed: Replaces the commit of the suite for the order of documents.
        chat: Whether prompts are rendered as chats.
        fills: Whether documents that are not selected are filled from the store.
        keeps_records: Whether results have whole records, with prompts and rows.
        writes: Whether documents are written.
        writes_to: Where the run is written, if not in ``dir``.
        judges: Whether this process judges gates.
        options: The options as results files have them.
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
