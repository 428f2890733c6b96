"""Access to the Hugging Face Hub, and to servers of data files, while datasets are
loaded and modules of tasks are imported.

An unreachable server delays each dataset by half a minute. For a minute after a failure
the server is not contacted, so that the other tasks of a benchmark fail immediately.
The time doubles with each failure: a tree with thousands of tasks takes many minutes.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import CodeType, ModuleType
from typing import Literal
from urllib.parse import urlsplit

from pytest_evals.data.network_variables import proxy_variable
from pytest_evals.errors import MissingExtraError

AWAY_S = 60.0  # seconds without new attempts after the first failure
MOST_AWAY_S = 1920.0
PROBE_S = 10.0  # time limit of the request that finds out whether a server replies

_NETWORK = frozenset((
    "ClientConnectionError", "ConnectionError", "gaierror", "LocalEntryNotFoundError",
    "OfflineModeIsEnabled", "TimeoutError", "TransportError",
))  # fmt: skip
"""Errors of Python, requests, httpx, aiohttp and huggingface_hub."""
_RIGHTS = frozenset({"GatedRepoError"})
_OFFLINE_FLAGS = {
    "datasets.config": "HF_HUB_OFFLINE",
    "evaluate.config": "HF_EVALUATE_OFFLINE",
    "huggingface_hub.constants": "HF_HUB_OFFLINE",
}
"""Module → its flag that restricts a library to its cache."""


@dataclass(slots=True)
class _Server:
    """Time of the last failed attempt, and the seconds without new attempts."""

    failed_at: float = float("-inf")
    away_s: float = AWAY_S
    has_replied: bool = False

    def is_away(self) -> bool:
        return time.monotonic() < self.failed_at + self.away_s

    def failed(self) -> None:
        if self.failed_at > float("-inf"):
            self.away_s = min(2 * self.away_s, MOST_AWAY_S)
        self.failed_at, self.has_replied = time.monotonic(), False


_DOWNLOADS = frozenset((
    "hf_hub_download", "load_dataset", "load_dataset_builder", "snapshot_download",
))  # fmt: skip
"""Functions of the libraries that download from the Hub."""

_HUB = ""
_servers: dict[str, _Server] = {}
"""Name of a server → its state; the Hub's name is empty."""


@contextmanager
def sparing_hub(*, probes: bool = False) -> Iterator[bool]:
    """Restrict the libraries to their caches in the block if the Hub was unreachable a
    short time ago, and remember that it is if the block fails for this reason.
    ``probes``: whether to find out first whether it replies at all: the libraries try
    for minutes if the network drops packets. Yields whether they are restricted."""
    hub = _servers.setdefault(_HUB, _Server())
    if probes and not (hub.has_replied or hub.is_away()):
        hub.has_replied = not _is_silent()
        if not hub.has_replied:
            hub.failed()
    is_away = hub.is_away()
    loaded = [sys.modules[one] for one in _OFFLINE_FLAGS if one in sys.modules]
    flags = [(vars(one), _OFFLINE_FLAGS[one.__name__]) for one in loaded]
    before = [config[flag] for config, flag in flags]
    if is_away:
        for config, flag in flags:
            config[flag] = True
    try:
        yield is_away
    except Exception as error:
        if not is_away and _is_any(error, _NETWORK):
            hub.failed()
        raise
    finally:
        for (config, flag), value in zip(flags, before, strict=True):
            config[flag] = value


def datasets_library(feature: str) -> ModuleType:
    """The ``datasets`` library, which a feature needs. Raises MissingExtraError if it
    is not installed."""
    try:
        import datasets
    except ImportError:
        raise MissingExtraError(feature, "datasets", "data") from None
    return datasets  # type: ignore[no-any-return]


@contextmanager
def reading_datasets(*, of_hub: bool = False) -> Iterator[None]:
    """Disable progress bars and download statistics of the ``datasets`` library in the
    block (it would report local files too, and wait). ``of_hub``: whether only the Hub
    is used; if it was unreachable within the last minute, only its cache. Raises
    ConnectionError if the Hub was not contacted, and the cache does not contain the
    dataset."""
    try:
        import datasets
    except ImportError:  # the block does not need it, or reports it
        yield
        return
    bars_disabled = datasets.are_progress_bars_disabled()
    count_downloads = datasets.config.HF_UPDATE_DOWNLOAD_COUNTS
    datasets.disable_progress_bars()
    datasets.config.HF_UPDATE_DOWNLOAD_COUNTS = False
    with ExitStack() as stack:
        is_away = of_hub and stack.enter_context(sparing_hub(probes=True))
        try:
            yield
        except Exception as error:
            if is_away and _is_any(error, _NETWORK):
                raise ConnectionError(
                    f"the Hub was unreachable a short time ago{through_proxy()}, and "
                    "the cache does not contain the dataset"
                ) from None
            raise
        finally:
            datasets.config.HF_UPDATE_DOWNLOAD_COUNTS = count_downloads
            if not bars_disabled:
                datasets.enable_progress_bars()


def through_proxy() -> str:
    """Return `` (through the proxy in HTTPS_PROXY)``; empty if the Hub is accessed
    without a proxy."""
    try:
        from huggingface_hub import constants
    except ImportError:
        return ""
    variable = proxy_variable(constants.ENDPOINT)
    return f" (through the proxy in {variable})" if variable else ""


def may_download(function: object) -> bool:
    """Return whether a Python function, or one of its module that it names, names a
    function that downloads from the Hub."""
    seen: set[CodeType] = set()

    def names_download(code: CodeType, names: Mapping[str, object]) -> bool:
        if code in seen:
            return False
        seen.add(code)
        if not _DOWNLOADS.isdisjoint(code.co_names):
            return True
        called = (getattr(names.get(one), "__code__", None) for one in code.co_names)
        inner = (*code.co_consts, *called)
        return any(names_download(c, names) for c in inner if isinstance(c, CodeType))

    code = getattr(function, "__code__", None)
    names = getattr(function, "__globals__", {})
    return isinstance(code, CodeType) and names_download(code, names)


def is_unreachable(error: BaseException) -> bool:
    """Return whether an error or its causes are network or access errors; compared by
    name, because the libraries use different classes."""
    return _is_any(error, _NETWORK | _RIGHTS) or "gated dataset" in str(error)


def is_offline(files: Iterable[str]) -> bool:
    """Return whether the server of a remote file cannot be reached. The ``datasets``
    library reports such a file as missing; a server that replies is reached."""
    url = next(_urls(files), "")
    if not url:
        return False
    from huggingface_hub import constants

    server = _servers.setdefault(urlsplit(url).netloc, _Server())
    if not (constants.HF_HUB_OFFLINE or server.is_away() or _probe(url) == "reply"):
        server.failed()
    return constants.HF_HUB_OFFLINE or server.is_away()


def refuse_away(files: Iterable[str]) -> None:
    """Raise an error if the server of a remote file was unreachable a short time ago.
    Raises ConnectionError if it was."""
    for url in _urls(files):
        name = urlsplit(url).netloc
        if name in _servers and _servers[name].is_away():
            raise ConnectionError(f"{name} was unreachable a short time ago")


def _urls(files: Iterable[str]) -> Iterator[str]:
    """Yield the addresses of files, and of archives: ``zip://a.csv::https://…``."""
    for file in files:
        url = file.rpartition("::")[2]
        if url.startswith(("http://", "https://")):
            yield url


def _is_silent() -> bool:
    """Return whether a request to the Hub gets neither a reply nor an error."""
    from huggingface_hub import constants

    return not constants.HF_HUB_OFFLINE and _probe(constants.ENDPOINT) == "silence"


def _probe(url: str) -> Literal["reply", "silence", "error"]:
    from http.client import HTTPException
    from urllib.request import Request, build_opener

    try:
        # The opener of urlopen keeps the proxies of its first call.
        with build_opener().open(Request(url, method="HEAD"), timeout=PROBE_S):
            return "reply"
    except (OSError, ValueError, HTTPException) as error:
        is_silent = isinstance(getattr(error, "reason", error), TimeoutError)
        is_reply = hasattr(error, "code")  # with an error status
        return "silence" if is_silent else "reply" if is_reply else "error"


def _is_any(error: BaseException, names: frozenset[str]) -> bool:
    seen: list[BaseException] = []
    current: BaseException | None = error
    while current is not None and current not in seen:
        seen.append(current)
        if names & {kind.__name__ for kind in type(current).__mro__}:
            return True
        current = current.__cause__ or current.__context__
    return False
