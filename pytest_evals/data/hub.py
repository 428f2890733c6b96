"""Access to the Hugging Face Hub while datasets are loaded.

An unreachable Hub delays each dataset by half a minute. For a minute after a failure
only the cache is used, so that the other tasks of a benchmark fail immediately. The
time doubles with each failure: a tree with thousands of tasks takes many minutes.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

AWAY_S = 60.0
"""Seconds without new attempts after the first failure."""
MOST_AWAY_S = 1920.0
PROBE_S = 10.0
"""Time limit of the request that finds out whether a server replies."""

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
_UNREACHABLE = (
    "the Hub was unreachable a short time ago, and the cache "
    "does not contain the dataset"
)


class _HubStatus:
    """Time of the last failed attempt, and the seconds without new attempts."""

    failed_at = float("-inf")
    away_s = AWAY_S


@contextmanager
def reading_datasets(*, of_hub: bool = False) -> Iterator[None]:
    """Disable progress bars and download statistics of the ``datasets`` library in the
    block (it would report local files too, and wait).

    Args:
        of_hub: Whether only the Hub is used; if it was unreachable within the last
            minute, only its cache.

    Raises:
        ConnectionError: The Hub was not contacted, and the cache does not contain the
            dataset.
    """
    import datasets
    from huggingface_hub import constants

    bars_disabled = datasets.are_progress_bars_disabled()
    count_downloads = datasets.config.HF_UPDATE_DOWNLOAD_COUNTS
    offline = datasets.config.HF_HUB_OFFLINE, constants.HF_HUB_OFFLINE
    datasets.disable_progress_bars()
    datasets.config.HF_UPDATE_DOWNLOAD_COUNTS = False
    recently_failed = (
        of_hub and time.monotonic() < _HubStatus.failed_at + _HubStatus.away_s
    )
    if recently_failed:
        datasets.config.HF_HUB_OFFLINE = constants.HF_HUB_OFFLINE = True
    try:
        yield
    except Exception as error:
        if not of_hub or not _is_any(error, _NETWORK):
            raise
        if recently_failed:
            raise ConnectionError(_UNREACHABLE) from None
        if _HubStatus.failed_at > float("-inf"):
            _HubStatus.away_s = min(2 * _HubStatus.away_s, MOST_AWAY_S)
        _HubStatus.failed_at = time.monotonic()
        raise
    finally:
        datasets.config.HF_UPDATE_DOWNLOAD_COUNTS = count_downloads
        datasets.config.HF_HUB_OFFLINE, constants.HF_HUB_OFFLINE = offline
        if not bars_disabled:
            datasets.enable_progress_bars()


def is_unreachable(error: BaseException) -> bool:
    """Return whether an error or its causes are network or access errors; compared by
    name, because the libraries use different classes."""
    return _is_any(error, _NETWORK | _RIGHTS) or "gated dataset" in str(error)


def is_offline(files: Iterable[str]) -> bool:
    """Return whether the server of a remote file cannot be reached. The ``datasets``
    library reports such a file as missing; a server that replies is reached."""
    url = next((f for f in files if f.startswith(("http://", "https://"))), "")
    if not url:
        return False
    from huggingface_hub import constants

    return constants.HF_HUB_OFFLINE or not _replies(url)


def _replies(url: str) -> bool:
    from urllib.request import Request, urlopen

    try:
        with urlopen(Request(url, method="HEAD"), timeout=PROBE_S):
            return True
    except (OSError, ValueError) as error:
        return hasattr(error, "code")  # a reply with an error status


def _is_any(error: BaseException, names: frozenset[str]) -> bool:
    seen: list[BaseException] = []
    current: BaseException | None = error
    while current is not None and current not in seen:
        seen.append(current)
        if names & {kind.__name__ for kind in type(current).__mro__}:
            return True
        current = current.__cause__ or current.__context__
    return False
