"""CPU time of an ``openai:`` run per request, against a server that replies at once::

    python tests/bench/served.py --docs 1000 --workers 0 2

The server is a separate process, whose time does not count.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import resource
import subprocess
import sys
import tempfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing.connection import Connection
from pathlib import Path

REPLY = json.dumps(
    {
        "choices": [{"message": {"content": "4"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 20, "completion_tokens": 1},
    }
).encode()
TASK = (
    'prompt: "What is {{a}} + 1?"\ntarget: "{{b}}"\nscore: exact\ndataset: rows.jsonl\n'
)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-length", str(len(REPLY)))
        self.end_headers()
        self.wfile.write(REPLY)

    def log_message(self, *words: object) -> None:
        pass


class _Server(ThreadingHTTPServer):
    request_queue_size = 256


def _serve(port: Connection) -> None:
    server = _Server(("127.0.0.1", 0), _Handler)
    port.send(server.server_address[1])
    server.serve_forever()


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _run(folder: Path, url: str, n_workers: int) -> str:
    model = f"openai:tiny,api=chat,base_url={url}"
    before = _cpu_s()
    command = [sys.executable, "-m", "pytest", "-q", f"--model={model}", "sums.yaml"]
    command += ["--evals-cache=off", "--evals-json=out.json", f"-n{n_workers}"]
    environment = {**os.environ, "OPENAI_API_KEY": "none"}
    subprocess.run(command, cwd=folder, env=environment, capture_output=True)
    latency = json.loads((folder / "out.json").read_text())["model_info"]["latency"]
    took = f"{_cpu_s() - before:.1f} CPU s"
    return f"-n {n_workers}: {took}; {latency['replies_per_s']} replies/s"


def main() -> None:
    """Print one line for each number of workers, and one for two documents, which
    measures the start-up."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--docs", type=int, default=1000)
    parser.add_argument("--workers", type=int, nargs="*", default=[0])
    options = parser.parse_args()
    ours, theirs = multiprocessing.Pipe()
    server = multiprocessing.Process(target=_serve, args=(theirs,), daemon=True)
    server.start()
    url = f"http://127.0.0.1:{ours.recv()}/v1"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        (path / "sums.yaml").write_text(TASK)
        for n_docs, workers in ((2, [0]), (options.docs, options.workers)):
            rows = (json.dumps({"a": i, "b": i + 1}) for i in range(n_docs))
            (path / "rows.jsonl").write_text("\n".join(rows) + "\n")
            for n_workers in workers:
                line = _run(path, url, n_workers)
                print(f"{n_docs:,} documents, {line}", flush=True)
    server.kill()


if __name__ == "__main__":
    main()
