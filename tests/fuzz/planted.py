"""Suites with planted secrets: each is put into one input of a run, and leaves it where
such a value may turn up. No output may contain any of them."""

from __future__ import annotations

import base64
import html
import json
import os
import random
import re
import shlex
import string
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote

import yaml

__all__ = ["Planted", "leaks", "plant", "serve"]

SHOWN = 12
"""Characters of a long secret that may not be shown at its beginning or end."""
NAMES = (
    "APP_API_KEY", "OPENAI_API_KEY", "DB_PASSWORD", "SERVICE_TOKEN", "HF_TOKEN", "MY_SECRET",
    "SMTP_PASS", "SENTRY_DSN", "GITHUB_PAT", "SLACK_WEBHOOK", "STORAGE_CONNECTION_STRING",
    "AUTH_HEADER", "AWS_SECRET_ACCESS_KEY", "STRIPE_KEY", "SESSION_COOKIE", "signing_key",
)  # fmt: skip
KEYS = (
    "api_key", "X-Functions-Key", "auth_header", "pass", "dsn", "connection_string", "pat", "webhook",
    "Authorization", "Proxy-Authorization", "clientSecret", "token", "password", "accessToken",
)  # fmt: skip
MODES = (
    [], [], [], [], ["--evals-plan"], ["--evals-validate"], ["--evals-write-out=1"], ["--collect-only"],
    ["--evals-cache-info=evals/quiz.yaml::quiz[q1]"], ["--evals-save-baseline=main"], ["-n2"],
)  # fmt: skip
OUTPUTS = (
    "-v", "-vv", "-q", "-rA", "--tb=long", "--tb=short", "--showlocals", "--junitxml=junit.xml",
    "--evals-junit=docs", "--evals-json=results.json", "--evals-html=report.html",
    "--report-log=log.jsonl", "--evals-markdown=summary.md", "--log-file=log.txt", "--log-level=DEBUG", "-x", "--durations=3",
    "--evals-max-errors=100%", "--evals-max-errors=100%", "--evals-strict",
)  # fmt: skip


@dataclass
class Planted:
    """A suite with secrets in its inputs."""

    secrets: list[str] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)
    arguments: list[str] = field(default_factory=list)
    changes: list[str] = field(default_factory=list)
    model: str = "python:app:answer"
    task: dict[str, Any] = field(default_factory=dict)
    ini: list[str] = field(default_factory=list)
    others: dict[str, str] = field(default_factory=dict)
    """Further files."""
    code: dict[str, list[str]] = field(default_factory=dict)
    """Place → lines: ``import``, ``answer``, ``conftest``, ``hooks``, ``helpers``."""

    def add(self, place: str, *lines: str) -> None:
        """Add lines of code to a place."""
        self.code.setdefault(place, []).extend(lines)

    def secret(self, rng: random.Random, *, one_line: bool = False) -> str:
        """A new secret."""
        found = rng.choice(_SHAPES[:-1] if one_line else _SHAPES)(rng)
        self.secrets.append(found)
        return found

    def files(self) -> dict[str, bytes]:
        """The files of the suite."""
        parts = {place: "\n".join(lines) for place, lines in self.code.items()}
        rows = [{"id": f"q{i}", "question": f"{i}?", "answer": "7"} for i in range(4)]
        task = {
            "task": "quiz",
            "dataset_path": "json",
            "dataset_kwargs": {"data_files": {"test": "quiz.jsonl"}},
            "test_split": "test",
            "output_type": "generate_until",
            "doc_to_text": "{{question}}",
            "doc_to_target": "{{answer}}",
            "metric_list": [{"metric": "exact_match"}],
            **self.task,
            "metadata": {
                "gates": ["exact_match >= 0.9"],
                **self.task.get("metadata", {}),
            },
        }
        text = yaml.safe_dump(task, sort_keys=False)
        found = {
            "evals/quiz.yaml": text.replace(
                "'!function helpers.text'", "!function helpers.text"
            ),
            "evals/quiz.jsonl": "".join(json.dumps(row) + "\n" for row in rows),
            "pytest.ini": "\n".join(["[pytest]", *self.ini, ""]),
            "app.py": _APP.format(**{"import": "", "answer": "", **parts}),
            "conftest.py": _CONFTEST.format(**{"conftest": "", "hooks": "", **parts}),
            "evals/helpers.py": "import os\n" + parts.get("helpers", ""),
            **self.others,
        }
        return {name: content.encode() for name, content in found.items()}


_APP = """
import logging
import os
import warnings
{import}

def answer(prompt):
    text = "7"
    n = sum(map(ord, str(prompt))) % 4
{answer}
    return text

answer.version = "1"
"""
_CONFTEST = """
import os
import warnings
{conftest}
{hooks}
"""


def plant(seeds: list[random.Random], rng: random.Random) -> Planted:
    """A suite with a secret for each seed."""
    suite = Planted()
    for seed in seeds:
        suite.changes.append(seed.choice(_INPUTS)(suite, seed))
    mode = rng.choice(MODES)
    suite.arguments += [*mode, *rng.sample(OUTPUTS, rng.randrange(7))]
    if "--report-log=log.jsonl" in suite.arguments:
        suite.arguments.append("-ppytest_reportlog.plugin")
    if not any(line.startswith("addopts") for line in suite.ini):
        suite.arguments.append(f"--model={suite.model}")
    suite.arguments.append("evals")
    return suite


_SIGNS = string.ascii_letters + string.digits


def _signs(rng: random.Random, n: int, signs: str = _SIGNS) -> str:
    return "".join(rng.choice(signs) for _ in range(n))


_SHAPES: tuple[Callable[[random.Random], str], ...] = (
    lambda rng: f"sk-{_signs(rng, 32)}",
    lambda rng: _signs(rng, 40, "0123456789abcdef"),
    lambda rng: f"{_signs(rng, 4)}{rng.randrange(10)}aB-{_signs(rng, 3)}",
    lambda rng: f"p{_signs(rng, 6)}#/{_signs(rng, 6)}?&{_signs(rng, 4)}",
    lambda rng: f"p{_signs(rng, 6)}<&>%|*_`{_signs(rng, 6)}",
    lambda rng: f"ü{_signs(rng, 6)}é漢{_signs(rng, 6)}",
    lambda rng: base64.b64encode(rng.randbytes(31)).decode(),
    lambda rng: ".".join(_signs(rng, 60, f"{_SIGNS}-_") for _ in range(3)),
    lambda rng: f"\"{_signs(rng, 6)}\\{_signs(rng, 6)}'{_signs(rng, 4)}",
    lambda rng: "\n".join(_signs(rng, 64, f"{_SIGNS}+/") for _ in range(5)),
)
"""From a random generator to a secret; the last ones fit into an environment only."""


# --- the environment ------------------------------------------------------------------


def _environment(suite: Planted, rng: random.Random) -> str:
    """A variable that the application shows; sometimes it is set after the start."""
    name, secret = rng.choice(NAMES), suite.secret(rng)
    how, show = rng.choice(_SHOWN)
    when = rng.choice(("before", "before", "conftest", "import", "call"))
    if how == "conftest cannot be imported" or how.startswith("helper"):
        when = "before"
    line = f"os.environ[{name!r}] = {secret!r}"
    if when == "before":
        suite.environment[name] = secret
    elif when == "conftest":
        suite.add("conftest", line)
    elif when == "import":
        suite.add("import", line)
        suite.add("conftest", f"import sys; sys.path.insert(0, {'.'!r}); import app")
    else:
        suite.add("answer", f"    {line}")
    value = f"os.environ[{name!r}]"
    if when == "call" and how not in _IN_CALL:
        value = f"os.environ.get({name!r}, 'none')"
    show(suite, value)
    return f"{name} set {when}: {how}"


def _in_answer(code: str) -> Callable[[Planted, str], None]:
    def show(suite: Planted, value: str) -> None:
        suite.add("answer", f"    key = {value}", f"    {code}")

    return show


def _hook(code: str) -> Callable[[Planted, str], None]:
    def show(suite: Planted, value: str) -> None:
        name = code.partition("(")[0]
        if not any(name in line for line in suite.code.get("hooks", ())):
            suite.add("hooks", f"def {code.format(key=value)}")

    return show


def _helper(code: str) -> Callable[[Planted, str], None]:
    def show(suite: Planted, value: str) -> None:
        suite.task["doc_to_text"] = "!function helpers.text"
        suite.add("helpers", code.format(key=value))

    return show


_LINES = {
    "answer": "text = f'7 {key}'",
    "answer of a part": "text = f'7 {key}' if n == 2 else text",
    "answer in JSON": "import json; text = json.dumps({{'x': key}})",
    "answer in base64": "import base64; text = base64.b64encode(f'me:{key}'.encode()).decode()",
    "answer in a URL": "from urllib.parse import quote; text = 'https://h/?q=' + quote(key)",
    "answer, cut": "text = 'x' * 55 + key",
    "exception": "if n == 1: raise ValueError(f'{key} is wrong')",
    "exception, nested": "if n == 1: raise ValueError({'deep': [key]}) from KeyError(key)",
    "warning": "warnings.warn(f'sent with {key}')",
    "print": "print('sent with', key)",
    "log": "logging.getLogger('app').warning('sent with %s', key)",
    "failed call": "if n == 3: raise RuntimeError('x' * 150 + key)",
}
_IN_CALL = frozenset(_LINES)
_SHOWN: tuple[tuple[str, Callable[[Planted, str], None]], ...] = (
    *(
        (how, _in_answer(code.replace("{{", "{").replace("}}", "}")))
        for how, code in _LINES.items()
    ),
    (
        "application cannot be imported",
        lambda suite, value: suite.add("import", f"raise ImportError('no ' + {value})"),
    ),
    (
        "conftest cannot be imported",
        lambda suite, value: suite.add(
            "conftest", f"raise ImportError('no ' + {value})  # pytest_evals"
        ),
    ),
    (
        "hook of scores",
        _hook("pytest_evals_score(record, task): raise ValueError('no ' + {key})"),
    ),
    (
        "hook of results",
        _hook("pytest_evals_result(result): raise ValueError('no ' + {key})"),
    ),
    (
        "hook of requests",
        _hook(
            "pytest_evals_requests(task, records): warnings.warn({key}); return records"
        ),
    ),
    (
        "report header",
        _hook("pytest_report_header(config): return 'with ' + {key}"),
    ),
    ("helper at collection", _helper("def text(doc): raise ValueError('no ' + {key})")),
    ("helper in the prompt", _helper("def text(doc): return doc['question'] + {key}")),
    (
        "helper cannot be imported",
        _helper("def text(doc): return 'x'\nraise ImportError('no ' + {key})"),
    ),
)
"""How a value of the application is shown."""


# --- options and files ----------------------------------------------------------------


def _spec(suite: Planted, rng: random.Random) -> str:
    """A served model whose address or arguments contain a secret; the server repeats
    its requests, or there is none."""
    port = rng.choice((os.environ.get("FUZZ_PORT", "1"), "1"))
    key, secret = rng.choice(KEYS), suite.secret(rng, one_line=True)
    host = f"127.0.0.1:{port}"
    model = "openai:m,max_retries=0,base_url=http://"
    plain = (
        secret
        if secret.isascii() and not set(secret) & set("\"'\\<>,&?|`")
        else quote(secret, "")
    )
    kind = rng.choice(("user", "query", "code", "body", "headers", "key", "variable"))
    if kind == "user":
        model += f"me:{plain}@{host}/v1"
    elif kind in ("query", "code"):
        model += f"{host}/v1?{'code' if kind == 'code' else key}={quote(secret, '')}"
    elif kind == "body":
        model += (
            f"{host}/v1,extra_body={json.dumps({key: secret, 'deep': [{key: secret}]})}"
        )
    elif kind == "headers":
        model += f"{host}/v1,extra_body={json.dumps({'headers': [['Proxy-Authorization', secret]]})}"
    elif kind == "key":
        model += f"{host}/v1,api_key_env={quote(secret, '')}"
        if quote(secret, "") != secret:
            suite.secrets.remove(secret)
    else:
        suite.environment["OPENAI_API_KEY"] = secret
        model += f"{host}/v1"
    suite.model = model
    return f"openai: {kind} {key}"


def _addopts(suite: Planted, rng: random.Random) -> str:
    secret = _signs(rng, 24)
    suite.secrets.append(secret)
    option = rng.choice(
        (
            f"--model=openai:m,max_retries=0,base_url=http://127.0.0.1:1/v1?api-key={secret}",
            f"--model=openai:m,token={secret}",
            f"{shlex.quote(f'--model={suite.model}')} --evals-gen-kwargs=api_key={secret}",
            f"{shlex.quote(f'--model={suite.model}')} --evals-metadata=password={secret}",
            f"{shlex.quote(f'--model={suite.model}')} --evals-judge=openai:m,base_url=http://u:{secret}@127.0.0.1:1",
        )
    )
    suite.ini.append(f"addopts = {option}")
    return f"addopts {option.partition('=')[0]}"


def _metadata(suite: Planted, rng: random.Random) -> str:
    secret, key = suite.secret(rng, one_line=True), rng.choice(KEYS)
    value: Any = rng.choice(
        ({key: secret}, [{key: secret}], f"https://u:{quote(secret, '')}@h/")
    )
    place = rng.choice(("metadata", "generation_kwargs", "dataset_kwargs"))
    if place == "metadata":
        suite.task.setdefault("metadata", {})["note"] = value
    elif place == "generation_kwargs":
        suite.task["generation_kwargs"] = {"until": ["\n"], key: secret}
    else:
        files = {"data_files": {"test": "quiz.jsonl"}}
        suite.task["dataset_kwargs"] = files | {"token": secret}
    return f"task: {place} {key}"


def _custom_model(suite: Planted, rng: random.Random) -> str:
    secret = suite.secret(rng)
    suite.environment["MINE_TOKEN"] = secret
    field_ = rng.choice(("name", "fingerprint", "info", "notes", "answer"))
    values = {
        "name": "'mine'", "fingerprint": "{'v': 1}", "info": "{}", "notes": "[]", "answer": "'7'",
        field_: {
            "name": "f'mine {key}'", "fingerprint": "{'v': [key]}", "info": "{'x': {'y': key}}",
            "notes": "[f'sent with {key}']", "answer": "f'7{key}'",
        }[field_],
    }  # fmt: skip
    suite.add(
        "hooks",
        "import pytest",
        "from pytest_evals import Response",
        "key = os.environ['MINE_TOKEN']",
        "class Mine:",
        *(
            f"    {name} = {values[name]}"
            for name in ("name", "fingerprint", "info", "notes")
        ),
        "    def answer(self, requests):",
        "        for i, _ in enumerate(requests):",
        f"            yield i, Response(text={values['answer']})",
        "@pytest.fixture(scope='session')",
        "def eval_model(): return Mine()",
    )
    return f"custom model: {field_}"


def _proxy(suite: Planted, rng: random.Random) -> str:
    secret = suite.secret(rng, one_line=True)
    name = rng.choice(("HTTP_PROXY", "https_proxy", "ALL_PROXY"))
    suite.environment[name] = f"http://me:{quote(secret, '')}@127.0.0.1:1"
    suite.model = "openai:m,max_retries=0,base_url=http://127.0.0.2:1/v1"
    return f"{name}"


def _json_variable(suite: Planted, rng: random.Random) -> str:
    secret, key = suite.secret(rng, one_line=True), rng.choice(KEYS)
    forms = {
        "APP_CONFIG": json.dumps({"deep": {key: secret}}),
        "DATABASE_URL": f"postgres://me:{quote(secret, '')}@db/x",
        "APP_HEADERS": f"Authorization: Bearer {base64.b64encode(secret.encode()).decode()}",
    }
    name = rng.choice(sorted(forms))
    suite.environment[name] = forms[name]
    suite.add("answer", f"    if n == 2: text = os.environ[{name!r}]")
    if name == "APP_HEADERS":
        suite.secrets[-1] = base64.b64encode(secret.encode()).decode()
    return f"{name} {key} in an answer"


# --- judges, LatticeFlow and notebooks ------------------------------------------------


_REPLIES = {
    "verdict": "json.dumps({'reason': f'with {key}', 'pass': n != 1})",
    "plain text": "f'I do not know {key}'",
    "cut off": "'{\"reason\": \"' + 'x' * 60 + key",
    "label": "f'correct {key}'",
    "exception": "raised(f'no {key}')",
}


def _judge(
    suite: Planted, rng: random.Random, kinds: Sequence[str] = ("native",)
) -> str:
    """A judge whose replies contain a value of the environment."""
    name, secret = rng.choice(NAMES), suite.secret(rng)
    how = rng.choice(sorted(_REPLIES))
    suite.environment[name] = secret
    suite.others["judge.py"] = _JUDGE_APP.format(name=name, reply=_REPLIES[how])
    given = "--evals-judge=python:judge:judge"
    if not any("--evals-judge" in line for line in (*suite.ini, *suite.arguments)):
        suite.arguments.append(given)
    kind = rng.choice(kinds)
    if kind == "native":
        score = rng.choice(
            (
                "judge: Is it polite?",
                "judge: {rubric: Is it polite?, scale: [1, 5]}",
                "pairwise: {rubric: Which is polite?, versus: hm}",
            )
        )
        suite.others["evals/polite.yaml"] = _POLITE.format(score=score)
    else:
        suite.others |= _LATTICEFLOW
    return f"{kind} judge: {how} with {name}"


def _latticeflow(suite: Planted, rng: random.Random) -> str:
    """LatticeFlow files: a judge, the address of a dataset, or a snippet of Python."""
    kind = rng.choice(("judge", "url", "snippet", "header"))
    if kind == "judge":
        return _judge(suite, rng, ("LatticeFlow",))
    suite.others |= _LATTICEFLOW
    secret = suite.secret(rng, one_line=True)
    if kind == "url":
        source = f"url: http://me:{quote(secret, '')}@127.0.0.1:1/rows.jsonl"
        suite.others["evals/rows.yaml"] = _LATTICEFLOW["evals/rows.yaml"].replace(
            "type: local, file_path: rows.jsonl", f"type: url, {source}"
        )
    elif kind == "snippet":
        suite.environment["APP_API_KEY"] = secret
        suite.others["evals/polite.yaml"] = _LATTICEFLOW["evals/polite.yaml"].replace(
            _SCORER, _SNIPPET
        )
    else:
        suite.others["evals/run.yaml"] = (
            _LATTICEFLOW["evals/run.yaml"]
            + "models:\n  - key: mine\n    display_name: Mine\n    url: http://127.0.0.1:1/v1\n"
            + f"    api_key: {json.dumps(secret)}\n"
        )
    return f"LatticeFlow: {kind}"


def _notebook(suite: Planted, rng: random.Random) -> str:
    """The result of a run as a notebook shows it."""
    name, secret = rng.choice(NAMES), suite.secret(rng)
    suite.environment[name] = secret
    suite.add(
        "answer",
        f"    if n == {rng.randrange(4)}: text = 'it is ' + os.environ[{name!r}]",
    )
    if rng.random() < 0.5:
        suite.add("answer", f"    if n == 3: raise ValueError(os.environ[{name!r}])")
    suite.add("hooks", _NOTEBOOK)
    return f"notebook: {name}"


_JUDGE_APP = """
import json, os

def raised(text):
    raise ValueError(text)

def judge(prompt):
    key = os.environ[{name!r}]
    n = sum(map(ord, str(prompt))) % 4
    return {reply}

judge.version = "1"
"""
_POLITE = """
prompt: "{{{{ q }}}}"
rows: [{{id: one, q: hello}}, {{id: two, q: bye}}]
score: [{{{score}}}]
"""
_SCORER = """
    - type: model_as_a_judge_classifier
      model_key: judge-model
      user_prompt: "Is it polite? {{ solver_output.output }}"
      correct_labels: [correct]
      incorrect_labels: [incorrect]
"""
_SNIPPET = """
    - type: python
      key: own
      compute_scores_snippet: |
        import os
        def compute_scores(sample, solver_output):
            raise ValueError(os.environ["APP_API_KEY"])
"""
_LATTICEFLOW = {
    "evals/polite.yaml": f"""
key: polite
display_name: Polite
description: Is it polite?
tasks: [chat_completion]
config_spec:
  - {{type: dataset, key: rows, display_name: Rows, default_value: rows}}
definition:
  dataset: {{key: "<< config.rows >>"}}
  solver:
    type: single_turn_solver
    input_builder:
      type: chat_completion
      input_messages: [{{role: user, content: "{{{{ sample.q }}}}"}}]
  scorers:{_SCORER}""",
    "evals/rows.yaml": """
key: rows
display_name: Rows
description: Rows.
source: {type: local, file_path: rows.jsonl}
""",
    "evals/rows.jsonl": '{"id": "one", "q": "hello"}\n{"id": "two", "q": "bye"}\n',
    "evals/run.yaml": """
tasks: [{$ref: ./polite.yaml}]
datasets: [{$ref: ./rows.yaml}]
evaluation:
  key: small
  display_name: Small
  description: Two rows.
  task_specifications: [{key: one, task_key: polite}]
""",
}
_NOTEBOOK = """
def pytest_sessionfinish(session):
    if hasattr(session.config, "workerinput"):
        return
    import sys
    from contextlib import redirect_stdout
    from io import StringIO
    from pathlib import Path
    from pytest_evals import evaluate
    sys.path.insert(0, ".")
    try:
        import app
    except Exception:  # the application's own
        return
    try:
        with redirect_stdout(StringIO()):  # the application's own output
            found = evaluate("evals/quiz.yaml", app.answer, folder="notebook")
    except Exception as error:
        text = str(error)
    else:
        text = found._repr_html_() + repr(found) + str(found)
    Path("notebook.html").write_text(text)
"""

_INPUTS: tuple[Callable[[Planted, random.Random], str], ...] = (
    *(_environment,) * 6, *(_spec,) * 3, _addopts, _metadata, _metadata, _custom_model, _proxy, _json_variable,
    *(_judge,) * 2, *(_latticeflow,) * 2, _notebook,
)  # fmt: skip


# --- outputs --------------------------------------------------------------------------


def leaks(
    secrets: list[str], output: str, folder: Path, inputs: set[str]
) -> Iterator[str]:
    """Where secrets are found, in any encoding: in the output, or in files and their
    names other than the inputs.

    Source lines of the user's code in a traceback are theirs: these secrets are not in
    the code, except values that are set after the start.
    """
    # A terminal breaks long lines, also within a word.
    joined = re.sub(r"\s*\n(?:E +| +)?", "", output)
    for secret in secrets:
        forms = [*_encoded(secret)]
        if any(form in text for form in forms for text in (output, joined)):
            yield "output"
        for path in folder.rglob("*"):
            name = path.relative_to(folder).as_posix()
            if any(form in name for form in forms):
                yield f"name {name}"
            if name in inputs or "__pycache__" in name or not path.is_file():
                continue
            data = path.read_bytes()
            if any(form.encode("utf-8", "surrogatepass") in data for form in forms):
                yield name


def _encoded(secret: str) -> Iterator[str]:
    raw = secret.encode()
    yield secret
    yield json.dumps(secret)[1:-1]
    yield repr(secret)[1:-1]
    yield html.escape(secret)
    yield quote(secret, "")
    yield base64.b64encode(raw).decode()
    yield base64.b64encode(b"me:" + raw).decode()[4:-4]
    if len(secret) > 2 * SHOWN:
        yield secret[:SHOWN]
        yield secret[-SHOWN:]
    if "\n" in secret:
        yield from secret.split("\n")


class _Echo(BaseHTTPRequestHandler):
    """Repeats its requests, and refuses every third prompt."""

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers["content-length"])).decode()
        text = f"7 {raw} {self.headers} {self.path}"
        refused = "2?" in raw
        body: dict[str, Any] = {"error": {"message": text}}
        if not refused:
            message = {"role": "assistant", "content": text}
            choice = {"text": text, "message": message, "finish_reason": "stop"}
            body = {"choices": [choice]}
        data = json.dumps(body).encode()
        self.send_response(400 if refused else 200)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


def serve() -> int:
    """Start a server that repeats its requests, in a process of its own; returns the
    process. Its port is in the variable ``FUZZ_PORT``."""
    server = HTTPServer(("127.0.0.1", 0), _Echo)
    os.environ["FUZZ_PORT"] = str(server.server_port)
    pid = os.fork()
    if pid == 0:
        server.serve_forever()
    server.server_close()
    return pid
