"""The process that starts and ends the servers of a session.

Run as a script with a listening Unix socket and, as standard input, a pipe that the
session holds open: when the pipe closes, because the session has ended or was killed,
all servers are ended with their children. Imports nothing of the package, so that it
starts in a moment.

A client connects, writes one JSON line, its order, and reads one, the reply: the port,
or an error. It then holds the server until it closes the connection; when the server
ends before, it reads a second line.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import ProxyHandler, build_opener

GRACE_S = 20.0  # Seconds between SIGTERM and SIGKILL
POLL_S = 0.1
TAIL = 40  # Last lines of a log that errors show
_MARK = "PYTEST_EVALS_SERVER"
"""Variable by which a server's processes are found, also in other process groups."""
_MASK = "***"
_OTHER_PORTS = 3
"""Free ports that are tried after one that another process has taken meanwhile."""
_LISTEN = "0A"  # State of a socket in ``/proc/net/tcp``
_REMOVE_S = 30.0
DIRECT = build_opener(ProxyHandler({}))


class Server:
    """A server of one order; started again with the same port after it has ended."""

    def __init__(self, order: dict[str, Any]) -> None:
        self.order = order
        self.port = order["port"] or _free_port()
        self.holders: list[socket.socket] = []
        self.pids: dict[socket.socket, int] = {}
        self.tail: deque[str] = deque(maxlen=TAIL)
        self.n_starts = 0
        self._is_over = False
        self._lock = threading.Lock()
        """Held while the process is started, so that none is after the end."""
        self.settled = threading.Event()
        """Set when the server is ready, or has an error instead."""
        self.error = ""
        self._process: subprocess.Popen[bytes] | None = None
        self._mark = f"{os.getpid()}-{id(self)}-"

    @property
    def code(self) -> int | None:
        """Exit status; ``None`` while it runs, and before."""
        return None if self._process is None else self._process.poll()

    def start(self) -> None:
        """Start the process and wait until it answers."""
        self.n_starts += 1
        self.settled.clear()
        self._kill()  # what an ended server has left
        self.error = self._tried()
        n_left = 0 if self.order["port"] or self.n_starts > 1 else _OTHER_PORTS
        while self.error == self._taken and n_left:
            self._kill()
            self.port = _free_port()
            self.error = self._tried()
            n_left -= 1
        if self.error:
            self.end()
        self.settled.set()

    @property
    def _taken(self) -> str:
        return f"port {self.port} is used by another process"

    def _tried(self) -> str:
        """Start the process once; return why it is not ready, empty if it is."""
        if _is_open(self.port):
            return self._taken
        try:
            with self._lock:
                if not self._is_over:
                    self._process = self._started()
        except OSError as error:
            return f"the server cannot be started: {error}"
        threading.Thread(target=self._log, daemon=True).start()
        return self._why_unready()

    def _started(self) -> subprocess.Popen[bytes]:
        order, port = self.order, str(self.port)
        words = [word.replace("{port}", port) for word in order["words"]]
        variables = order["environment"].items()
        given = {name: value.replace("{port}", port) for name, value in variables}
        return subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=order["folder"],
            env={**os.environ, **given, _MARK: self._mark},
            start_new_session=True,
        )

    def _log(self) -> None:
        """Write the log without secrets; notify the holders when the server ends."""
        process = self._process
        assert process is not None and process.stdout is not None
        with Path(self.order["log"]).open("a", encoding="utf-8") as file:
            for line in process.stdout:
                text = line.decode("utf-8", "replace")
                for secret in self.order["secrets"]:
                    text = text.replace(secret, _MASK)
                file.write(text)
                file.flush()
                self.tail.append(text.rstrip("\n"))
        process.wait()
        if self.settled.is_set() and not self.error and not self._is_over:
            for holder in [*self.holders]:
                _send(holder, self.last_words())

    def last_words(self) -> dict[str, Any]:
        """Exit status, and the end of the log."""
        return {"code": self.code, "tail": [*self.tail]}

    def _why_unready(self) -> str:
        """Wait until the server answers; an error if it does not, else empty."""
        process = self._process
        assert process is not None
        limit_s = self.order["timeout_s"]
        address = f"http://127.0.0.1:{self.port}{self.order['ready']}"
        end = time.monotonic() + limit_s
        while time.monotonic() < end:
            if process.poll() is not None:
                time.sleep(POLL_S)  # for the last lines of its log
                self._kill()
                if _is_open(self.port):
                    return self._taken
                return f"the server ended before it was ready, {_status(self.code)}"
            if _answers(address):
                return self._taken if self._is_of_others() else ""
            time.sleep(POLL_S)
        return f"the server is not ready after {limit_s:g} s: {address} does not answer"

    def end(self) -> None:
        """End all processes, for good."""
        with self._lock:
            self._is_over = True
        self._kill()

    def _kill(self) -> None:
        """End all processes: SIGTERM, after a while SIGKILL."""
        process = self._process
        if process is None:
            return
        for number, wait_s in ((signal.SIGTERM, GRACE_S), (signal.SIGKILL, GRACE_S)):
            self._signal(process, number)
            end = time.monotonic() + wait_s
            while self._runs(process) and time.monotonic() < end:
                time.sleep(POLL_S)
            if not self._runs(process):
                break
        if self.order["container"]:
            with suppress(OSError, subprocess.TimeoutExpired):
                subprocess.run(
                    [self.order["words"][0], "rm", "-f", self.order["container"]],
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    timeout=_REMOVE_S,
                    check=False,
                )

    def _signal(self, process: subprocess.Popen[bytes], number: int) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)
        for pid in _marked(self._mark):
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)

    def _runs(self, process: subprocess.Popen[bytes]) -> bool:
        if process.poll() is None or any(True for _ in _marked(self._mark)):
            return True
        try:
            os.killpg(process.pid, 0)
        except (ProcessLookupError, PermissionError):
            return False  # the latter on macOS, for a group of ended processes
        return True

    def _is_of_others(self) -> bool:
        """Whether another process listens on the port; Linux only. Unknown for a
        container, whose port belongs to the container's daemon."""
        if self.order["container"]:
            return False
        sockets, owners = {*_listeners(self.port)}, set[int]()
        for file in Path("/proc").glob("[0-9]*/fd/*"):
            with suppress(OSError):
                if os.readlink(file) in sockets:
                    owners.add(int(file.parts[2]))
        return bool(owners) and owners.isdisjoint(_marked(self._mark))


class Supervisor:
    """All servers of a session, by the keys of their orders."""

    def __init__(self) -> None:
        self._servers: dict[str, Server] = {}
        # Each client has its own thread; some wait until others let go of a server.
        self._changed = threading.Condition()

    def serve(self, connection: socket.socket) -> None:
        """Carry out the order of a connection, until it or the server ends."""
        with connection, suppress(OSError):
            order = json.loads(connection.makefile("rb").readline() or b"null")
            if order is None:
                return
            server, conflict = self._server(order, connection)
            if server is None:
                _send(connection, {"error": conflict, "tail": []})
                return
            try:
                self._run(server, connection)
            finally:
                with self._changed:
                    server.holders.remove(connection)
                    del server.pids[connection]
                    self._changed.notify_all()

    def _run(self, server: Server, connection: socket.socket) -> None:
        server.settled.wait()
        if server.error:
            _send(connection, {"error": server.error, **server.last_words()})
            return
        _send(connection, {"port": server.port, "n_starts": server.n_starts})
        if server.code is not None:
            _send(connection, server.last_words())
        while connection.recv(1):  # nothing is sent: until it is closed
            pass

    def _server(
        self, order: dict[str, Any], connection: socket.socket
    ) -> tuple[Server | None, str]:
        """Return a server that runs or starts; otherwise ``None`` and the reason.

        Waits until the servers that may not run at the same time are free.
        """
        key = order["key"]
        with self._changed:
            while others := self._in_the_way(order):
                held = {pid for other in others for pid in other.pids.values()}
                if order["pid"] in held:
                    return None, "another server is in use"
                if not held:
                    for other in others:
                        other.end()
                        del self._servers[other.order["key"]]
                    break
                self._changed.wait()
            server = self._servers.get(key)
            starts = server is None
            if server is None:
                server = self._servers[key] = Server(order)
            elif server.code is not None and not server.error:
                if server.n_starts > order["restart"]:
                    server.error = f"the server ended, {_status(server.code)}"
                else:
                    server.settled.clear()
                    starts = True
            server.holders.append(connection)
            server.pids[connection] = order["pid"]
        if starts:
            server.start()
        return server, ""

    def _in_the_way(self, order: dict[str, Any]) -> list[Server]:
        return [
            server
            for key, server in self._servers.items()
            if key != order["key"]
            and not (server.order["parallel"] and order["parallel"])
        ]

    def end(self) -> None:
        """End all servers, side by side."""
        ends = [threading.Thread(target=s.end) for s in [*self._servers.values()]]
        for one in ends:
            one.start()
        for one in ends:
            one.join()


def _marked(start: str) -> Iterator[int]:
    """Processes whose mark starts with a text; Linux only."""
    mark = f"{_MARK}={start}".encode()
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            variables = (folder / "environ").read_bytes().split(b"\0")
            if any(one.startswith(mark) for one in variables):
                yield int(folder.name)


def _send(connection: socket.socket, reply: dict[str, Any]) -> None:
    with suppress(OSError):
        connection.sendall(json.dumps(reply).encode() + b"\n")


def _answers(address: str) -> bool:
    try:
        with DIRECT.open(address, timeout=5) as reply:
            return bool(200 <= reply.status < 300)
    except HTTPError as error:
        return error.code in (401, 403)  # it is up, and wants a key
    except (OSError, HTTPException, ValueError):
        return False


def _is_open(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def _listeners(port: int) -> Iterator[str]:
    """Links of the sockets that listen on a port, in the folders of their processes."""
    for table in ("tcp", "tcp6"):
        with suppress(OSError):
            for line in Path("/proc/net", table).read_text().splitlines()[1:]:
                words = line.split()
                if words[3] == _LISTEN and words[1].endswith(f":{port:04X}"):
                    yield f"socket:[{words[9]}]"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _status(code: int | None) -> str:
    if code is not None and code < 0:
        return f"by signal {signal.Signals(-code).name}"
    return f"with exit status {code}"


def main() -> None:
    """Serve until standard input closes, in a child: if that is killed, this process
    ends what it has started; if this one is killed, the child continues."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # The session decides. Not SIG_IGN, which servers would inherit.
        signal.signal(number, lambda *_: None)
    child = os.fork()
    if child:
        os.close(int(sys.argv[1]))
        os.waitpid(child, 0)
        for pid in _marked(f"{child}-"):
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        return
    listener = socket.socket(fileno=int(sys.argv[1]))
    supervisor = Supervisor()

    def accept() -> None:
        while True:
            connection, _ = listener.accept()
            threading.Thread(
                target=supervisor.serve, args=(connection,), daemon=True
            ).start()

    threading.Thread(target=accept, daemon=True).start()
    while sys.stdin.buffer.read(1):
        pass
    listener.close()
    shutil.rmtree(sys.argv[2], ignore_errors=True)
    supervisor.end()


if __name__ == "__main__":
    main()
