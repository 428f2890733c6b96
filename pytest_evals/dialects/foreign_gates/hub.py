"""Evals from ``eval.yaml`` of datasets on the Hugging Face Hub: tasks for inspect-ai,
without thresholds.

As in inspect-ai 0.3.285: ``_eval/task/hf.py``, ``solver/_prompt.py``,
``solver/_multiple_choice.py``, ``scorer/_pattern.py`` and ``scorer/_match.py``.
"""

from __future__ import annotations

import json
import re
import string
from collections.abc import Callable, Mapping
from typing import Any

from pytest_evals.dialects.foreign_gates.suite import (
    Converted,
    UnconvertibleError,
    Values,
)

_UNNAMED = "ORG/DATASET"
_LETTERS = string.ascii_uppercase
_STEPS = (
    "{prompt}\n\nBefore answering, reason in a step-by-step manner as to get the right "
    "answer. Provide your answer at the end on its own line in the form "
    '"ANSWER: $ANSWER" (without quotes) where $ANSWER is the answer to the question.'
)
_CHOICE = (
    "Answer the following multiple choice question. {format} of your response should "
    "be of the following format: 'ANSWER: $LETTER' (without quotes) where LETTER is "
    "one of {{letters}}.{cot}\n\n{{question}}\n\n{{choices}}"
)
_ANSWERS = {
    "letter": r"ANSWER\s*:\s*([A-Za-z])(?:[^\w]|\n|$)",
    "word": r"ANSWER\s*:\s*(\w+)(?:\n|$)",
    "line": r"ANSWER\s*:\s*([^\n]+)",
}
_CHOSEN = (
    r"(?:.*?^(?=ANSWER\s*:\s*[A-Za-z\d ,]+\s*$)"
    r"|.*?(?=ANSWER\s*:\s*[A-Za-z\d ,]+(?:\W|$)))"
    r"ANSWER\s*:\s*([A-Za-z\d ,]+)"
)
"""A line with the letter, or else the first text of this form."""
_NUMBER = r"(?<![\w.])[+-]?(?:\d[\d,]*)?\.?\d+(?![\w%])"
_NO_SOLVER = {
    "use_tools": "its tools are Python",
    "self_critique": "a critique of the answer is another request",
}
_NO_SCORER = {
    "model_graded_qa": "write a judge with a rubric",
    "model_graded_fact": "write a judge with a rubric",
    "f1": "it compares bags of words",
    "exact": "it compares sets of words without articles; exact is stricter",
    "math": "it compares expressions",
}


def convert_hub(values: Values, folder: str, _: str) -> Converted:
    """One eval for each task; parts that have no equal are left out.

    Raises:
        UnconvertibleError: No task is left.
    """
    suite = Converted()
    for number, task in enumerate(values["tasks"]):
        name = str(task.get("id") or f"task{number}")
        if "field_spec" not in task:
            framework = values.get("evaluation_framework", "no framework")
            suite.left_out.append(f"the task {name}: {framework} has its prompts")
            continue
        try:
            file = re.sub(r"[^\w.-]+", "_", name)
            suite.files[file] = _Task(name, task, suite.left_out).eval()
        except UnconvertibleError as error:
            suite.left_out.append(f"the task {name}: {error}")
        except KeyError as error:
            suite.left_out.append(f"the task {name}: no key {error}")
    if not suite.files:
        raise UnconvertibleError("; ".join(suite.left_out))
    suite.left_out.append("gates: the file has no thresholds; add gates to the evals")
    suite.left_out.append(
        f"the data set, which the file does not name: replace {_UNNAMED} by its name"
    )
    suite.commands.append(f"pytest --model=MODEL {folder}")
    return suite


class _Task:
    """A task of the file. ``left_out``: parts that are not converted are added."""

    def __init__(self, name: str, task: Values, left_out: list[str]) -> None:
        self._name, self._task, self._left_out = name, task, left_out
        self._fields: Values = task["field_spec"]
        self._system: list[str] = []
        self._prompt = _column(self._fields["input"])
        self._has_choices = False

    def eval(self) -> dict[str, Any]:
        """Return the keys of an eval.

        Raises:
            UnconvertibleError: A solver cannot be converted, or no scorer.
        """
        if self._fields.get("input_image"):
            raise UnconvertibleError("input_image: use doc_to_image of lm-eval's files")
        for solver in self._task["solvers"]:
            self._solve(solver["name"], solver.get("args") or {})
        score = self._scorers()
        dataset = {"path": _UNNAMED, "split": self._task.get("split", "test")}
        config = self._task.get("config", "default")
        found: dict[str, Any] = {
            "task": self._name,
            "dataset": dataset | ({} if config == "default" else {"name": config}),
        }
        chat = [{"role": "system", "content": text} for text in self._system]
        prompt = [*chat, {"role": "user", "content": self._prompt}]
        found["prompt"] = prompt if chat else self._prompt
        found |= {"target": self._target(), "score": score}
        found |= self._epochs()
        if self._task.get("shuffle_choices"):
            self._leave("shuffle_choices: choices keep their order")
        return found

    def _leave(self, what: str) -> None:
        self._left_out.append(f"{self._name}: {what}")

    def _solve(self, name: str, arguments: Values) -> None:
        if name in _NO_SOLVER:
            raise UnconvertibleError(f"the solver {name}: {_NO_SOLVER[name]}")
        template, names = arguments.get("template"), self._names(arguments)
        if name == "system_message":
            self._system.append(_filled(template, names))
        elif name in ("prompt_template", "chain_of_thought"):
            given = _STEPS if template is None else template
            self._prompt = _filled(given, {**names, "prompt": self._prompt})
        elif name == "user_message":
            self._prompt += "\n" + _filled(template, names)
        elif name == "multiple_choice":
            self._choose(arguments)
        elif name != "generate":
            raise UnconvertibleError(f"the solver {name} is unknown")

    def _names(self, arguments: Values) -> dict[str, str]:
        """Values for templates: columns of ``metadata``, and arguments."""
        columns = self._fields.get("metadata") or []
        found = {str(one): _column(one) for one in columns}
        others = {k: v for k, v in arguments.items() if k != "template"}
        return found | {str(key): _literal(str(one)) for key, one in others.items()}

    def _choose(self, arguments: Values) -> None:
        if arguments.get("multiple_correct"):
            raise UnconvertibleError("multiple_choice with several correct choices")
        choices = self._fields.get("choices")
        if not choices:
            raise UnconvertibleError("multiple_choice without choices in field_spec")
        columns = [choices] if isinstance(choices, str) else choices
        listed = (
            _name(choices)
            if isinstance(choices, str)
            else f"[{', '.join(map(_name, columns))}]"
        )
        self._has_choices = True
        at = f'"{_LETTERS}"[loop.index0]'
        cot = bool(arguments.get("cot"))
        template = arguments.get("template") or _CHOICE.format(
            format="The last line" if cot else "The entire content",
            cot=" Think step by step before answering." if cot else "",
        )
        self._prompt = _filled(
            template,
            {
                "question": self._prompt,
                "choices": f"{{% for one in {listed} %}}{{{{ {at} }}}}) {{{{ one }}}}"
                "{{ '' if loop.last else '\\n' }}{% endfor %}",
                "letters": f"{{% for one in {listed} %}}{{{{ {at} }}}}"
                "{{ '' if loop.last else ',' }}{% endfor %}",
            },
        )

    def _scorers(self) -> list[Any]:
        found = []
        for scorer in self._task["scorers"]:
            name, arguments = scorer["name"], scorer.get("args") or {}
            read = _SCORERS.get(name)
            if read is None:
                why = _NO_SCORER.get(name, "it is unknown")
                self._leave(f"the scorer {name}: {why}")
                continue
            try:
                entry, note = read(arguments)
            except UnconvertibleError as error:
                self._leave(f"the scorer {name}: {error}")
                continue
            found.append(entry)
            if note:
                self._leave(f"the scorer {name}: {note}")
        if not found:
            raise UnconvertibleError("no scorer can be converted")
        return found

    def _target(self) -> str:
        target = str(self._fields["target"])
        if target.startswith("literal:"):
            return _literal(target.split(":")[1])
        if not self._has_choices:
            return _column(target)
        name = _name(target)
        return f'{{{{ {name} if {name} is string else "{_LETTERS}"[{name}] }}}}'

    def _epochs(self) -> dict[str, Any]:
        epochs, reducer = self._task.get("epochs", 1), self._task.get("epoch_reducer")
        if epochs == 1:
            return {}
        if reducer not in (None, "mean"):
            self._leave(f"epoch_reducer: {reducer}: the mean of {epochs} answers")
        return {"repeats": epochs}


def _name(column: object) -> str:
    """A column in a template.

    Raises:
        UnconvertibleError: Templates cannot use it.
    """
    text = str(column)
    if not text.isidentifier():
        raise UnconvertibleError(f"the column {text!r} is not a name for templates")
    return text


def _column(column: object) -> str:
    return f"{{{{ {_name(column)} }}}}"


def _literal(text: str) -> str:
    """Text that a template leaves as it is."""
    return f"{{{{ {json.dumps(text)} }}}}" if re.search(r"{[{%#]", text) else text


def _filled(template: object, values: Mapping[str, str]) -> str:
    """A template of Python's ``str.format`` as one of Jinja's.

    Raises:
        UnconvertibleError: It is a file, or has other fields.
    """
    if not isinstance(template, str):
        raise UnconvertibleError(f"a template is {template!r}, not text")
    try:
        parts = [*string.Formatter().parse(template)]
    except ValueError as error:
        raise UnconvertibleError(f"invalid template: {error}") from None
    made = ""
    for text, field, form, conversion in parts:
        made += _literal(text)
        if field is None:
            continue
        if field not in values or form or conversion:
            raise UnconvertibleError(f"the template has an unknown field {field!r}")
        made += values[field]
    return made


_Scorer = tuple[dict[str, Any], str]
"""A scorer of evals, and how it differs."""


def _extracted(pattern: str, flags: str = "is") -> dict[str, str]:
    """The first match in an answer; evals take the last one."""
    return {"regex": rf"(?{flags})\A{pattern}"}


def _choice(_: Values) -> _Scorer:
    extract = _extracted(_CHOSEN, "ims")
    return {"exact": {"extract": extract, "ignore_case": True}}, ""


def _answer(arguments: Values) -> _Scorer:
    kind = arguments.get("pattern")
    if kind not in _ANSWERS:
        raise UnconvertibleError(f"pattern is {kind!r}, not letter, word or line")
    extract = _extracted(f".*?{_ANSWERS[kind]}", "is")
    return {"exact": {"extract": extract, "ignore_case": True}}, ""


def _pattern(arguments: Values) -> _Scorer:
    given, ignores = arguments.get("pattern"), arguments.get("ignore_case", True)
    try:
        n_groups = re.compile(str(given)).groups
    except re.error as error:
        raise UnconvertibleError(f"invalid pattern {given!r}: {error}") from None
    if n_groups != 1:
        raise UnconvertibleError("only patterns with one group are converted")
    # Flags at its start count for the whole pattern, and are not allowed elsewhere.
    at_start = re.match(r"\(\?([a-zA-Z]+)\)", str(given))
    flags = at_start[1] if at_start else ""
    pattern = str(given)[at_start.end() if at_start else 0 :]
    own = {*flags, *("i" if ignores else "")}
    first = f"(?s:.*?)(?:{pattern})"
    shown = "".join(sorted(own))
    extract = {"regex": f"(?{shown})\\A{first}" if shown else f"\\A{first}"}
    return {"exact": {"extract": extract, "ignore_case": bool(ignores)}}, ""


def _includes(arguments: Values) -> _Scorer:
    return {"contains": {"ignore_case": bool(arguments.get("ignore_case", True))}}, ""


def _match(arguments: Values) -> _Scorer:
    place = arguments.get("location", "end")
    ignores = {"ignore_case": bool(arguments.get("ignore_case", True))}
    if arguments.get("numeric"):
        if place not in ("begin", "end"):
            raise UnconvertibleError(f"numbers at location {place}")
        extract = {"regex": _NUMBER}
        if place == "begin":
            extract = _extracted(f".*?({_NUMBER})")
        note = "numbers with thousands separators equal only the same text"
        return {"equals": {"extract": extract}}, note
    note = "punctuation around the answer and the target counts"
    if place == "end":
        raise UnconvertibleError("no scorer compares the end of an answer")
    if place not in _PLACES:
        raise UnconvertibleError(f"location is {place!r}")
    return {_PLACES[place]: ignores}, note


_PLACES = {"exact": "exact", "begin": "starts_with", "any": "contains"}
_SCORERS: Mapping[str, Callable[[Values], _Scorer]] = {
    "answer": _answer,
    "choice": _choice,
    "includes": _includes,
    "match": _match,
    "pattern": _pattern,
}
