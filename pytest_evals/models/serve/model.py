"""The model behind a started server, which may end and be started again."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any
from urllib.request import Request as HttpRequest

from pytest_evals.core.model import AdaptedModel, Model
from pytest_evals.core.request import Request, Response
from pytest_evals.models.serve.client import RunningServer
from pytest_evals.models.serve.supervisor import DIRECT

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
        often as its spec allows, and gets the requests that it has not answered; if it
        ends once more, a ``ModelError`` has the end of its log."""
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
    name = _asked(f"{address}/v1/models", key, lambda reply: reply["data"][0]["id"])
    return name, _asked(f"{address}/version", key, lambda reply: reply["version"])


def _asked(url: str, key: str, read: Callable[[Any], Any]) -> str:
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    try:
        with DIRECT.open(HttpRequest(url, headers=headers), timeout=_ASK_S) as reply:
            found = read(json.loads(reply.read()))
    except (OSError, ValueError, KeyError, IndexError, TypeError):
        return ""
    return found if isinstance(found, str) else ""
