"""The Hugging Face Hub while datasets are read.

A Hub that cannot be reached keeps each dataset waiting for half a minute. So for a
minute after such a failure only the cache is looked at: the other fifty tasks of a
benchmark say the same at once.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

AWAY_S = 60.0
"""Seconds for which nobody asks again."""

_NETWORK = frozenset(
    {
        "ConnectionError",
        "LocalEntryNotFoundError",
        "OfflineModeIsEnabled",
        "TimeoutError",
        "TransportError",
    }
)
"""Errors of Python, requests, httpx and huggingface_hub."""
_RIGHTS = frozenset({"GatedRepoError"})
_AWAY = "the Hub could not be reached a moment ago, and the cache does not have it"


class _Reach:
    """When the Hub could not be reached last."""

    failed_at = float("-inf")


@contextmanager
def reading_datasets(*, of_hub: bool = False) -> Iterator[None]:
    """Meanwhile the ``datasets`` library shows no progress bars, and does not tell a
    server that a dataset was loaded (it would for local files too, and wait).

    Args:
        of_hub: Whether nothing but the Hub is asked; it is not, if it could not be
            reached a moment ago.

    Raises:
        ConnectionError: It was not asked, and the cache does not have the dataset.
    """
    import datasets
    from huggingface_hub import constants

    hidden = datasets.are_progress_bars_disabled()
    counted = datasets.config.HF_UPDATE_DOWNLOAD_COUNTS
    offline = datasets.config.HF_HUB_OFFLINE, constants.HF_HUB_OFFLINE
    datasets.disable_progress_bars()
    datasets.config.HF_UPDATE_DOWNLOAD_COUNTS = False
    away = of_hub and time.monotonic() < _Reach.failed_at + AWAY_S
    if away:
        datasets.config.HF_HUB_OFFLINE = constants.HF_HUB_OFFLINE = True
    try:
        yield
    except Exception as error:
        if not of_hub or not _is_any(error, _NETWORK):
            raise
        if away:
            raise ConnectionError(_AWAY) from None
        _Reach.failed_at = time.monotonic()
        raise
    finally:
        datasets.config.HF_UPDATE_DOWNLOAD_COUNTS = counted
        datasets.config.HF_HUB_OFFLINE, constants.HF_HUB_OFFLINE = offline
        if not hidden:
            datasets.enable_progress_bars()


def is_out_of_reach(error: BaseException) -> bool:
    """Whether somewhere in its history there is a fault of the network or of access
    rights; by name, since the libraries below have classes of their own."""
    return _is_any(error, _NETWORK | _RIGHTS) or "gated dataset" in str(error)


def _is_any(error: BaseException, names: frozenset[str]) -> bool:
    seen: list[BaseException] = []
    at: BaseException | None = error
    while at is not None and at not in seen:
        seen.append(at)
        if names & {kind.__name__ for kind in type(at).__mro__}:
            return True
        at = at.__cause__ or at.__context__
    return False
