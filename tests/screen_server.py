"""Run a server at ``localhost:8000`` with one kind of fault, for screens of the docs::

    python -m tests.screen_server torn pytest --model=openai:…

It runs as long as the command after the fault's name.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

ADDRESS = ("localhost", 8000)
NOTHING = {"message": {"content": None}, "finish_reason": "length"}
FAULTS = {
    "broken": (500, json.dumps({"error": {"message": "boom"}})),
    "torn": (200, '{"choices": [{"te'),
    "silent": (200, json.dumps({"choices": [NOTHING]})),
    "narrow": (
        400,
        json.dumps(
            {"error": {"message": "This model's maximum context length is 64 tokens."}}
        ),
    ),
    "missing": (
        404,
        json.dumps({"error": {"message": "The model `tiny` does not exist."}}),
    ),
}
"""Name of the fault → status and text of every reply."""


def serve(fault: str, command: list[str]) -> int:
    """Run the command while the server runs; return its exit code."""
    status, text = FAULTS[fault]

    class Faulty(BaseHTTPRequestHandler):
        """Sends the same reply to every request."""

        def do_POST(self) -> None:
            """Read the request, and reply."""
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *words: object) -> None:
            """Log nothing."""

    with ThreadingHTTPServer(ADDRESS, Faulty) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        code = subprocess.run(command, check=False).returncode
        server.shutdown()
    return code


if __name__ == "__main__":
    sys.exit(serve(sys.argv[1], sys.argv[2:]))
