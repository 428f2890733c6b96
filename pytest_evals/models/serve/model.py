"""Servers as a session sees them: started at the first use, ended with the session; and
the model behind one, which may end and be started again.

One process of a session owns the supervisor, which starts the servers; with workers,
that is their controller (:func:`share`).
"""

from __future__ import annotations

import atexit
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from threading import Event, Thread
from typing import Any
from urllib.request import Request as HttpRequest

from pytest_evals.core.model import AdaptedModel, Model
from pytest_evals.core.request import Request, Response
from pytest_evals.errors import ModelError, OptionError
from pytest_evals.masking.registry import hidden
from pytest_evals.models.serve import supervisor
from pytest_evals.models.serve.supervisor import DIRECT

_ADDRESS = "PYTEST_EVALS_SERVERS"
"""Variable with the address of the supervisor of a session with workers."""
_CLOSE_S = 2 * supervisor.GRACE_S + 10.0
_LONGEST_ADDRESS = 90  # Characters; operating systems allow some 104
_PARALLEL = (
    "  fix: add parallel=true to both, if the machine has room for both at a time"
)
_ASK_S = 30.0
_LOOK_S = 0.2
_NOTICE_S = 1.0


class RunningServer:
    """A server that this process holds until it is closed."""

    def __init__(self, order: Mapping[str, Any]) -> None:
        """Start the server, or use the running one of an equal order; returns when it
        is ready. If it cannot be started, ends, or is not ready in time, a
        ``ModelError`` has the end of its log."""
        self._order = order
        self.ended = threading.Event()  # Set when the server has ended during the run
        self._address = _hold()
        try:
            self._connect()
        except BaseException:
            _release()
            raise

    def _connect(self) -> None:
        self.ended.clear()
        self._connection = socket.socket(socket.AF_UNIX)
        try:
            self._connection.connect(self._address)
            text = json.dumps({**self._order, "pid": os.getpid()})
            self._connection.sendall(f"{text}\n".encode())
            self._replies = self._connection.makefile("rb")
            reply = json.loads(self._replies.readline() or b"{}")
        except OSError as error:
            self._connection.close()
            raise ModelError(f"no server can be started: {error}") from None
        except BaseException:
            self._let_go()
            raise
        if "port" not in reply:
            self._let_go()
            raise self._error(reply)
        self.port: int = reply["port"]
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        """Wait for the server's last words."""
        with suppress(OSError, ValueError):
            if self._replies.readline():
                self.ended.set()

    def _let_go(self) -> None:
        with suppress(OSError):  # close() alone waits for the thread that reads
            self._connection.shutdown(socket.SHUT_RDWR)
        self._connection.close()

    def restart(self) -> None:
        """Start a server that has ended again; ``ModelError`` if it has ended as often
        as ``restart`` allows."""
        self._let_go()
        self._connect()

    def close(self) -> None:
        """Let go of the server. It is ended with the session; without workers, when
        nobody holds it."""
        self._let_go()
        _release()

    def _error(self, reply: dict[str, Any]) -> ModelError:
        message = reply.get("error", "the process that starts servers has ended")
        if message == "another server is in use":
            return ModelError(f"{message} and this one is another\n{_PARALLEL}")
        fix, port = f"see its log, {self._order['log']}", self._order["port"]
        if port and message.startswith(f"port {port} is used"):
            fix = "end it, or write {port} instead of the number: a free one is put in"
        tail = [f"    {hidden(line)}" for line in reply.get("tail", ())]
        shown = "\n".join([f"{message}: {self._order['key']}", *tail])
        return ModelError(f"{shown}\n  fix: {fix}")


class _Owner:
    """The supervisor of this process, and its end of the pipe."""

    def __init__(self) -> None:
        folder = tempfile.mkdtemp(prefix="evals-")
        if len(folder) > _LONGEST_ADDRESS:
            os.rmdir(folder)
            folder = tempfile.mkdtemp(prefix="evals-", dir="/tmp")
        self.address = os.path.join(folder, "s")
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(self.address)
            listener.listen()
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-I", "-S", supervisor.__file__),
                    *(str(listener.fileno()), folder),
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[listener.fileno()],
                start_new_session=True,
            )

    def close(self) -> None:
        """Let the supervisor end all servers, and wait for it."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_CLOSE_S)


class _Session:
    """The supervisor of this process's session."""

    owner: _Owner | None = None
    n_held = 0
    is_shared = False
    lock = threading.Lock()  # models are opened and closed in several threads


def share() -> dict[str, str]:
    """Start the supervisor for the workers of this process; return the variables of
    their environment by which they find it."""
    with _Session.lock:
        _Session.is_shared = True
        return {_ADDRESS: _owned_address()}


def end_all() -> None:
    """End all servers that this process owns."""
    with _Session.lock:
        owner, _Session.owner = _Session.owner, None
        _Session.is_shared = False
    if owner is not None:
        owner.close()


def _owned_address() -> str:
    """The address of this process's supervisor, which is started if necessary."""
    if _Session.owner is None:
        if not hasattr(socket, "AF_UNIX") or os.name != "posix":
            raise OptionError("servers are started on Linux and macOS only")
        atexit.register(end_all)
        _Session.owner = _Owner()
    return _Session.owner.address


def _hold() -> str:
    """Count a server; return the supervisor's address."""
    with _Session.lock:
        address = os.environ.get(_ADDRESS) or _owned_address()
        _Session.n_held += 1
    return address


def _release() -> None:
    with _Session.lock:
        _Session.n_held -= 1
        is_last = not _Session.n_held and not _Session.is_shared
    if is_last:
        end_all()


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
