"""The model behind a started server, which may end and be started again."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any
from urllib.error import HTTPError
from urllib.request import ProxyHandler, build_opener

from pytest_evals.core.model import AdaptedModel, Model
from pytest_evals.core.request import Request, Response
from pytest_evals.models.serve.client import RunningServer

_DIRECT = build_opener(ProxyHandler({}))
_ASK_S = 30.0
_LOOK_S = 0.2
_NOTICE_S = 1.0


class ServedModel(AdaptedModel):
    """A model that holds its server while it is open."""

    def __init__(
        self, name: str, server: RunningServer, given: Model, about: Mapping[str, Any]
    ) -> None:
        """``about``: the server's facts for results files."""
        super().__init__(given)
        self.name = name
        self._server, self._about = server, about

    def answer(self, requests: Sequence[Request], /) -> Iterator[tuple[int, Response]]:
        """Answer all requests. If the server ends, it is started again as
        often as its spec allows, and gets the requests that it has not answered.

        Raises:
            ModelError: It ended once more; with the end of its log.
        """
        left = dict(enumerate(requests))
        while left:
            positions = [*left]
            try:
                with self._stopping_when_ended():
                    for place, response in self._given.answer([*left.values()]):
                        if response.error and self._server.ended.is_set():
                            continue
                        del left[positions[place]]
                        yield positions[place], response
            except Exception:
                # A lost connection may be noticed before the end of the process.
                if not self._server.ended.wait(_NOTICE_S):
                    raise
            if not self._server.ended.is_set():
                return
            if left:
                self._server.restart()

    @contextmanager
    def _stopping_when_ended(self) -> Iterator[None]:
        """Stop sending as soon as the server has ended, instead of trying again."""
        done = Event()

        def watch() -> None:
            while not done.is_set():
                if self._server.ended.wait(_LOOK_S):
                    self._given.stop_sending()
                    return

        watcher = Thread(target=watch, daemon=True)
        watcher.start()
        try:
            yield
        finally:
            done.set()

    @property
    def info(self) -> Mapping[str, Any]:
        """The model's info and the server's facts."""
        return {**self._given.info, "server": dict(self._about)}

    def close(self) -> None:
        """Close the connections, and let go of the server."""
        try:
            super().close()
        finally:
            self._server.close()


def facts_of(address: str, key: str) -> tuple[str, str]:
    """The name of the first model that a server lists, and the server's version; empty
    if it does not report them. ``key``: the server's API key, if it has one."""
    models = _asked(f"{address}/v1/models", key)
    version = _asked(f"{address}/version", key)
    return _of(models, lambda m: m["data"][0]["id"]), _of(
        version, lambda v: v["version"]
    )


def _of(reply: Any, read: Callable[[Any], Any]) -> str:
    try:
        found = read(reply)
    except (KeyError, IndexError, TypeError):
        return ""
    return found if isinstance(found, str) else ""


def _asked(url: str, key: str) -> Any:
    from urllib.request import Request as HttpRequest

    request = HttpRequest(
        url, headers={"Authorization": f"Bearer {key}"} if key else {}
    )
    try:
        with _DIRECT.open(request, timeout=_ASK_S) as reply:
            return json.loads(reply.read())
    except (HTTPError, OSError, ValueError):
        return None
