"""An OpenAI-compatible server for tests: ``python fake_server.py --port N``.

Environment: ``DIE_AFTER=N`` exits with status 3 at the request after N, ``VERSION``,
``LOADS_S``, ``STUBBORN=1`` ignores SIGTERM, ``CHILD=1`` leaves its session with a child
that sleeps, ``NEVER=1`` exits at once with status 4. ``STARTS`` is a file to which each
start appends its process id.
"""

import json
import os
import signal
import subprocess
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

ANSWERS = {"France": "Paris", "Italy": "Rome"}
n_answered = 0


class Handler(BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def say(self, body):
        content = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def do_GET(self):
        if self.path == "/v1/models":
            self.say({"data": [{"id": "org/tiny"}]})
        elif self.path == "/version":
            self.say({"version": os.environ.get("VERSION", "1.0")})
        else:
            self.send_error(404)

    def do_POST(self):
        global n_answered  # noqa: PLW0603
        n_answered += 1
        if n_answered > int(os.environ.get("DIE_AFTER", "1000000")):
            print("CUDA out of memory", flush=True)
            os._exit(3)
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        prompt = body["messages"][-1]["content"]
        text = next((v for k, v in ANSWERS.items() if k in prompt), "?")
        message = {"role": "assistant", "content": text}
        choice = {"message": message, "finish_reason": "stop"}
        usage = {"prompt_tokens": 5, "completion_tokens": 1}
        self.say({"model": "org/tiny", "choices": [choice], "usage": usage})


if __name__ == "__main__":
    print("starting", *sys.argv[1:], flush=True)
    if os.environ.get("STARTS"):
        with Path(os.environ["STARTS"]).open("a") as file:
            file.write(f"{os.getpid()}\n")
    if os.environ.get("NEVER"):
        print("no such model", flush=True)
        sys.exit(4)
    if os.environ.get("STUBBORN"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if os.environ.get("CHILD"):
        child = subprocess.Popen(["sleep", "600"], start_new_session=True)
        with Path(os.environ["CHILD"]).open("w") as file:
            file.write(str(child.pid))
    time.sleep(float(os.environ.get("LOADS_S", "0")))
    port = int(sys.argv[sys.argv.index("--port") + 1])
    ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()
