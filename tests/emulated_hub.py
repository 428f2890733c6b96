"""A local mirror of the Hub's API, for tests without network: repositories of models
and datasets are folders, ``models/OWNER/NAME`` and ``datasets/OWNER/NAME``, with one
commit on ``main``."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

COMMIT = "c0ffee" + 34 * "0"


class Hub(BaseHTTPRequestHandler):
    """The repositories below ``server.root``."""

    def do_HEAD(self) -> None:
        self.reply(b"")

    def do_GET(self) -> None:
        self.reply(b"")

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        self.reply(self.rfile.read(length))

    def reply(self, body: bytes) -> None:
        path = urlsplit(self.path).path
        self.server.requests.append(f"{self.command} {path}")
        parts = [unquote(one) for one in path.strip("/").split("/")]
        if parts[0] == "api":
            self.api(self.server.root.joinpath(*parts[1:4]), parts[4:], body)
            return
        kind = parts.pop(0) if parts[0] == "datasets" else "models"
        at = parts.index("resolve") if "resolve" in parts else len(parts)
        file = self.server.root.joinpath(kind, *parts[:at], *parts[at + 2 :])
        if parts[at + 1 : at + 2] not in (["main"], [COMMIT]):
            self.fail(404, "RevisionNotFound")
        elif not file.is_file():
            self.fail(404, "EntryNotFound")
        else:
            self.send(200, file.read_bytes())

    def api(self, folder: Path, rest: list[str], body: bytes) -> None:
        if not folder.is_dir():
            self.fail(401, "RepoNotFound")
            return
        if rest and rest[1] not in ("main", COMMIT):
            self.fail(404, "RevisionNotFound")
            return
        files = {
            path.relative_to(folder).as_posix(): path.stat().st_size
            for path in sorted(folder.rglob("*"))
            if path.is_file()
        }
        kind, below = (rest or [""])[0], "/".join(rest[2:])
        chosen = json.loads(body).get("paths", []) if kind == "paths-info" else files
        entries = [
            {"type": "file", "path": name, "size": size, "oid": name_hash(name)}
            for name, size in files.items()
            if name in chosen and name.startswith(below)
        ]
        siblings = [{"rfilename": name, "size": n} for name, n in files.items()]
        name = "/".join(folder.parts[-2:])
        info = {"id": name, "sha": COMMIT, "tags": [], "siblings": siblings}
        found = entries if kind in ("tree", "paths-info") else info
        if kind == "tree" and not entries:
            self.fail(404, "EntryNotFound")
        else:
            self.send(200, json.dumps(found).encode())

    def fail(self, code: int, name: str) -> None:
        self.send(code, b"{}", {"X-Error-Code": name, "X-Error-Message": name})

    def send(self, code: int, data: bytes, headers: dict[str, str] | None = None):
        self.send_response(code)
        given = {"ETag": f'"{hashlib.sha1(data).hexdigest()}"', **(headers or {})}
        given |= {"X-Repo-Commit": COMMIT, "Content-Length": str(len(data))}
        for name, value in given.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def log_message(self, *words: object) -> None:
        pass


def name_hash(name: str) -> str:
    return hashlib.sha1(name.encode()).hexdigest()


@contextmanager
def emulated_hub(root: Path) -> Iterator[tuple[str, list[str]]]:
    """Serve the repositories below a folder.

    Yields:
        The address, for ``HF_ENDPOINT``, and the requests so far.
    """
    with ThreadingHTTPServer(("127.0.0.1", 0), Hub) as server:
        server.root, server.requests = root, []
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", server.requests
        server.shutdown()
