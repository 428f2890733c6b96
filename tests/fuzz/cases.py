"""Fuzzing cases: a small valid suite, a few mutations, and a command.

A case is determined by its seed and number: they give the same files and the same
command on every machine.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from pytest_evals.plugin.settings.option_table import TABLE
from tests.fuzz import values
from tests.fuzz.mutations import FOLDER, LINK, mutate
from tests.fuzz.planted import plant
from tests.fuzz.structure import gated

__all__ = ["Case", "gates_of", "make"]

SUITES = Path(__file__).parent / "suites"
TASK_FILES = SUITES.parent.parent / "task_files"
OWN_MODEL = '''\
"""A custom model."""

import pytest

from pytest_evals import Response


class Own:
    name = "own"
    fingerprint = {"model": "own", "version": 1}
    info = {"parameters": 7}
    notes = ()

    def answer(self, requests):
        for place, request in enumerate(requests):
            yield place, Response(text="7", logprob=-0.5, greedy=False)


@pytest.fixture(scope="session")
def eval_model():
    return Own()
'''

SHARES = (
    *("lm_eval",) * 4,
    *("latticeflow",) * 2,
    *("lighteval",) * 2,
    *("native",) * 3,
    "task_files",
)
"""Relative frequency of each suite."""

PLANTED = 0.1
"""Share of cases with planted secrets."""
STRUCTURE = 0.1
"""Share of the others whose gate a change of structure may lose."""

UNKNOWN = "nobody/acc >= 0.0199"
"""A gate of a task that does not exist."""

# Replicas on a cluster cost seconds each, and repeatability runs everything K times.
LEFT_OUT = {"ray", "repeatability", "allow-unsafe-code", "sandbox"}


@dataclass
class Case:
    """One run of pytest over mutated files.

    ``steps`` are the seeds of its mutations; fewer of them make a smaller case. If
    ``judges`` is set, every gate of the files must be judged if the run ends with 0.
    No output may contain one of ``secrets``.
    """

    seed: int
    number: int
    suite: str
    steps: list[int]
    changes: list[str] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)
    arguments: list[str] = field(default_factory=list)
    how: str = "fork"
    judges: bool = True
    secrets: list[str] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)

    def build(self) -> None:
        """Create files and command from the seeds."""
        if self.suite == "secrets":
            self._plant()
            return
        if self.suite == "structure":
            seeds = [
                random.Random(f"{self.seed} {self.number} {n}") for n in self.steps
            ]
            rng = random.Random(f"{self.seed} {self.number}")
            self.files, self.changes = gated(seeds, rng)
            where = rng.choice(("evals", "."))
            # Gates of a folder that the command does not name are not lost.
            where = "." if "other/gates.yaml" in self.files else where
            self.arguments = ["--model=scripted:echo", where]
            return
        self.files = dict(_suite(self.suite))
        self.changes = []
        self.arguments = ["--model=scripted:answers.jsonl"]
        self.judges = True
        rng = random.Random(f"{self.seed} {self.number}")
        if rng.random() < 0.15:
            self.files["conftest.py"] = OWN_MODEL.encode()
            self.arguments = []
        folder = "valid" if self.suite == "task_files" else "evals"
        where = rng.choice((folder, folder, "", "files"))
        for step in self.steps:
            self._change(random.Random(f"{self.seed} {self.number} {step}"))
        if rng.random() < 0.3:
            self.arguments.append("--continue-on-collection-errors")
        if where == "files":
            self.arguments += sorted(_named(self.files))
        elif where:
            self.arguments.append(where)

    def _plant(self) -> None:
        seeds = [random.Random(f"{self.seed} {self.number} {n}") for n in self.steps]
        planted = plant(seeds, random.Random(f"{self.seed} {self.number}"))
        self.files, self.judges = planted.files(), False
        self.arguments, self.changes = planted.arguments, planted.changes
        self.secrets, self.environment = planted.secrets, planted.environment

    def _change(self, rng: random.Random) -> None:
        if rng.random() < 0.15:
            self.changes.append(self._option(rng))
        elif rng.random() < 0.04:
            self.files["gates.yaml"] = f"gates: [{UNKNOWN}]\n".encode()
            self.changes.append("gates.yaml: at the top, of an unknown task")
        else:
            self.changes.append(mutate(self.files, rng))

    def _option(self, rng: random.Random) -> str:
        draw = rng.random()
        if draw < 0.2:
            given = rng.choice(values.PYTEST)
            self.judges &= given in values.SAFE_PYTEST
            self.arguments += given.split(" ") if given.startswith("-p") else [given]
            return f"option {given}"
        if draw < 0.35:
            given = f"--model={rng.choice(values.MODELS)}"
            self.arguments.append(given)
            return f"option {given}"
        option = rng.choice([o for o in TABLE if o.name not in LEFT_OUT])
        value = rng.choice(values.OPTIONS)
        self.judges &= option.name not in values.SELECTING
        if option.name in ("model", "judge"):
            value = rng.choice(values.MODELS)
        if option.ini and rng.random() < 0.5:
            return self._ini(option.dest, value, rng)
        given = option.flag if option.kind == "flag" else f"{option.flag}={value}"
        self.arguments.append(given)
        return f"option {given[:80]}"

    def _ini(self, name: str, value: str, rng: random.Random) -> str:
        raw = value.encode("utf-8", "surrogatepass")
        forms = {
            "pytest.ini": b"[pytest]\n%s = %s\n",
            "pyproject.toml": b"[tool.pytest.ini_options]\n%s = '%s'\n",
            "tox.ini": b"[pytest]\n%s = %s\n",
        }
        bare = b"[tool.pytest.ini_options]\n%s = %s\n"
        file = rng.choice(sorted(forms))
        form = bare if file == "pyproject.toml" and rng.random() < 0.4 else forms[file]
        if file != "pytest.ini":
            self.files.pop("pytest.ini", None)
        self.files[file] = form % (name.encode(), raw)
        return f"{file}: {name} = {value[:80]}"

    def write(self, folder: Path) -> None:
        """Write the files under a folder."""
        for name, content in self.files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if content == FOLDER:
                path.mkdir()
            elif content.startswith(LINK[:11]):
                path.symlink_to(content[11:-1].decode())
            else:
                path.write_bytes(content)


def make(seed: int, number: int, suite: str = "") -> Case:
    """The case of a seed with this number. ``suite``: a name instead of a random
    one."""
    rng = random.Random(f"{seed}/{number}")
    drawn = rng.choice(SHARES)
    if random.Random(f"{seed}/{number} secrets").random() < PLANTED:
        drawn = "secrets"
    elif random.Random(f"{seed}/{number} structure").random() < STRUCTURE:
        drawn = "structure"
    suite = suite or drawn
    draw = rng.random()
    how = "workers" if draw < 0.02 else "process" if draw < 0.05 else "fork"
    steps = list(range(rng.choice((1, 1, 1, 2, 2, 3, 5))))
    case = Case(seed, number, suite, steps, how=how)
    case.build()
    return case


def gates_of(case: Case) -> Iterator[tuple[str, str]]:
    """Gates whose text is still in a file that is read: the file and the text."""
    for name, content in case.files.items():
        if not name.endswith((".yaml", ".yml")):
            continue
        for line in content.split(b"\n"):
            for gate in (*values.GATES.get(case.suite, ()), UNKNOWN):
                before, found, _ = line.partition(gate.encode())
                if found and b"#" not in before:
                    yield name, gate


def _named(files: dict[str, bytes]) -> Iterator[str]:
    """The files that a user would name to run all of a suite."""
    other = ("_base", "gates")
    for name, content in files.items():
        path = Path(name)
        is_taken = path.suffix == ".yaml" or path.stem.startswith("eval_")
        is_named = len(path.parts) == 2 and path.stem not in other
        if is_taken and is_named and content != FOLDER:
            yield name


@cache
def _suite(name: str) -> dict[str, bytes]:
    if name != "task_files":
        return _read(SUITES / name, SUITES / name)
    files = _read(TASK_FILES / "valid", TASK_FILES) | _read(
        TASK_FILES / "data", TASK_FILES
    )
    # a changed address must not be contacted
    del files["valid/latticeflow/models/http.yaml"]
    run = files["valid/latticeflow/run.yaml"]
    run = run.replace(b'  - $ref: "./models/http.yaml"\n', b"")
    files["valid/latticeflow/run.yaml"] = run
    files["answers.jsonl"] = b'{"text": "Paris"}\n'
    return files | {"pytest.ini": b"[pytest]\n"}


def _read(folder: Path, root: Path) -> dict[str, bytes]:
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }
