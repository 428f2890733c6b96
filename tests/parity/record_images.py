"""Record the messages with images that lm-eval 0.4.13 sends to a server.

    python tests/parity/record_images.py

Run it by hand, in an environment with ``lm_eval[api]==0.4.13`` and Pillow. It runs each
task of ``images/`` with lm-eval's ``local-chat-completions`` against a local server
that replies ``a``, and writes the received messages to ``images/<task>.json``, in order
of arrival. An image is written as its mode, size and pixels, since versions of Pillow
compress differently.
"""

from __future__ import annotations

import json
import os
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

from images.images import readable
from recording import versions, write

HERE = Path(__file__).resolve().parent / "images"


def main() -> None:
    """Record all tasks."""
    os.environ["OPENAI_API_KEY"] = "none"
    os.chdir(HERE)
    for path in sorted(HERE.glob("*.yaml")):
        messages = _received(path.stem)
        recording = {"versions": versions(), "messages": readable(messages)}
        write(HERE / f"{path.stem}.json", recording)


def _received(task: str) -> list[Any]:
    """The messages of all documents of a task."""
    from lm_eval import simple_evaluate
    from lm_eval.tasks import TaskManager

    with _Server() as server:
        simple_evaluate(
            model="local-chat-completions",
            model_args={
                "model": "any",
                "base_url": f"http://127.0.0.1:{server.port}/v1/chat/completions",
                "max_images": 9,
            },
            tasks=[task],
            task_manager=TaskManager(include_path=str(HERE), include_defaults=False),
            apply_chat_template=True,
            system_instruction="Be brief.",
        )
        return [body["messages"] for body in server.bodies]


class _Server:
    """Replies ``a`` to every request, and stores the requests."""

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []
        self._server = HTTPServer(("127.0.0.1", 0), self._handler())
        self.port = self._server.server_port

    def __enter__(self) -> _Server:
        threading.Thread(
            target=self._server.serve_forever, args=(0.02,), daemon=True
        ).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        bodies = self.bodies
        reply = {"choices": [{"index": 0, "message": {"content": "a"}}]}

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                length = int(self.headers["Content-Length"])
                bodies.append(json.loads(self.rfile.read(length)))
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.end_headers()
                self.wfile.write(json.dumps(reply).encode())

            def log_message(self, *_: object) -> None:
                """Log nothing."""

        return Handler


if __name__ == "__main__":
    main()
