# ruff: noqa: E501 - a template a line
"""Templates with limits: bombs end as errors; everything else renders as in Jinja,
which is the oracle."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jinja2
import jinja2.meta
import pytest
import yaml

from pytest_evals.data.calls import FieldError
from pytest_evals.errors import EvalsError, Place
from pytest_evals.guests.latticeflow.prompts import templates as latticeflow
from pytest_evals.limits.budget import TemplateLimitError
from pytest_evals.prompts.fields import compile_template

TWICE = "{% set ns = namespace(x=[1]) %}{% for i in range(60) %}{% set ns.x = %s"
"""A list that contains a list twice, and so on."""
BOMBS = [
    # Loops
    "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
    "{% for i in range(9) %}" * 12 + "x" + "{% endfor %}" * 12,
    "{% for a in l %}" * 15 + "{% endfor %}" * 15,
    "{% macro f(n) %}{% if n %}{{ f(n-1) }}{{ f(n-1) }}{% endif %}{% endmacro %}{{ f(90) }}",
    "{% for x in l recursive %}{{ loop(l) if loop.depth < 60 }}{% endfor %}",
    "{{ range(99999)|select('in', range(99999)|list)|list|length }}",
    "{% for i in range(99999) %}{% if t == t ~ '' %}{% endif %}{% endfor %}",
    # Strings and lists
    "{{ 'a' * 10**9 }}",
    "{{ 10**9 * q }}",
    "{{ [0] * 10**9 }}",
    "{{ ([0] * 10**9) | length }}",
    "{{ (1,) * 1000000000 }}",
    "{{ t.replace('x', t) }}",
    "{{ t | replace('', t) }}",
    "{{ t | regex_replace('x', t) }}",
    "{{ t.translate({120: t}) }}",
    "{{ [t] * 10000 }}",
    "{{ ([t] * 10000) | join }}",
    "{{ ''.join([t] * 10000) }}",
    "{{ range(99999) | map('string') | join(t * 10) }}",
    "{{ t | wordwrap(1, true, t) }}",
    "{{ lipsum(n=10**6) }}",
    "{% set j = joiner('a' * 10**9) %}{{ j() }}{{ j() }}",
    "{{ [1] | batch(10**9, 'x') | list }}",
    "{{ [1] | slice(10**9) | list }}",
    "{{ ([[1]] * 99999) | sum(start=[]) | length }}",
    "{% for i in range(99999) %}{{ t }}{% endfor %}",
    "{% set x %}{% for i in range(99999) %}{{ t }}{% endfor %}{% endset %}{{ x|length }}",
    "{% filter upper %}{% for i in range(99999) %}{{ t }}{% endfor %}{% endfilter %}",
    "{% set ns = namespace(l=[]) %}{% for i in range(99999) %}"
    "{% set ns.l = ns.l + [t[1:]] %}{% endfor %}",
    # Widths
    "{{ 'a' | center(10**9) }}",
    "{{ 'a' | center(1000000000) }}",
    "{{ 'a'.ljust(10**9) }}",
    "{{ '5'.zfill(10**9) }}",
    "{{ '\t'.expandtabs(10**9) }}",
    "{{ q | indent(10**9, true) }}",
    "{{ l | tojson(indent=10**9) }}",
    "{{ '%1000000000d' % 1 }}",
    "{{ '%*d' % (10**9, 1) }}",
    "{{ '%.1000000000f' % 1.5 }}",
    "{{ '%1000000000d' | format(1) }}",
    "{{ '{:1000000000d}'.format(1) }}",
    "{{ '{:{}}'.format(1, 10**9) }}",
    "{{ '{:>{w}}'.format(1, w=10**9) }}",
    "{{ n.to_bytes(10**9, 'big') }}",
    # Numbers
    "{{ 10**(10**8) }}",
    "{{ n**(10**9) }}",
    "{{ 1.5 | round(10**9) }}",
    "{{ n | round(-10**9) }}",
    "{% set ns = namespace(x=3) %}{% for i in range(60) %}{% set ns.x = ns.x * ns.x %}"
    "{% endfor %}{{ ns.x }}",
    # Doubled in each round
    TWICE.replace("%s", "ns.x + ns.x %}{% endfor %}{{ ns.x }}"),
    TWICE.replace("%s", "ns.x ~ ns.x %}{% endfor %}{{ ns.x }}"),
    TWICE.replace("%s", "[ns.x, ns.x] %}{% endfor %}{{ ns.x }}"),
    TWICE.replace("%s", "[ns.x, ns.x] %}{% endfor %}{{ ns.x | tojson }}"),
    TWICE.replace("%s", "[ns.x, ns.x] %}{% endfor %}{{ ns.x == ns.x[0] }}"),
    TWICE.replace("%s", "{'a': ns.x, 'b': ns.x} %}{% endfor %}{{ '{}'.format(ns.x) }}"),
    TWICE.replace("%s", "dict(a=ns.x, b=ns.x) %}{% endfor %}{{ '%s' % ns.x }}"),
    "{% set l = [1] %}{% for i in range(60) %}{% if l.extend(l) %}{% endif %}{% endfor %}",
]

RUN = """
import json, re, resource, sys, time
from pathlib import Path
resource.setrlimit(resource.RLIMIT_AS, (3 * 2**30, 3 * 2**30))
from pytest_evals.errors import Place
from pytest_evals.guests.latticeflow.prompts import templates
from pytest_evals.prompts.fields import compile_template

def most_megabytes():
    # ru_maxrss would begin with that of the process that has started this one.
    status = Path("/proc/self/status")
    if status.is_file():
        return int(re.search(r"VmHWM:\\s+(\\d+)", status.read_text())[1]) // 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024

ROW = {"q": "a b", "t": "x" * 10**5, "l": [1, 2, 3], "n": 3}
for text in json.load(sys.stdin):
    before = time.process_time()
    outputs = []
    for ours in (compile_template, lambda t: templates.compile_template(t, Place(Path("t")), "t")):
        try:
            ours(text).render(ROW)
            outputs.append("rendered")
        except Exception as error:
            outputs.append(f"{type(error).__name__}: {error}")
    used = time.process_time() - before
    print(json.dumps([outputs, used, most_megabytes()]), flush=True)
"""


@pytest.mark.nightly
@pytest.mark.skipif(sys.platform == "win32", reason="memory is not limited there")
def test_every_bomb_is_an_error_after_seconds_and_little_memory() -> None:
    """Runs in a separate process with limited memory."""
    done = subprocess.run(
        [sys.executable, "-c", RUN],
        input=json.dumps(BOMBS),
        capture_output=True,
        text=True,
        timeout=500,
    )
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(found) == len(BOMBS), done.stderr
    for bomb, (outputs, seconds, megabytes) in zip(BOMBS, found, strict=True):
        for one in outputs:
            assert re.search("(makes|takes) (more|longer)|needs too mu", one), (
                bomb,
                one,
            )
        assert seconds < 30, bomb
        assert megabytes < 1024, bomb


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "{% if 1 %}" * 200 + "{% endif %}" * 200,
        "{% for i in l %}" * 60 + "{% endfor %}" * 60,
        "{{ " + "(" * 2000 + "1" + ")" * 2000 + " }}",
        "{{ " + "[" * 300 + "]" * 300 + " }}",
        "{{ " + "not " * 5000 + "1 }}",
        "{{ " + "1" * 5000 + " }}",
        "{{ a" + ".b" * 5000 + " }}",
        "{{ " + "a ~ " * 3000 + "a }}",
    ],
)
def test_a_template_that_python_cannot_compile_is_invalid(text: str) -> None:
    """Either it is an error or the result; it is never a traceback."""
    try:
        compile_template(text)
    except EvalsError as error:
        assert re.search("nested too deeply|4300 digits", str(error))
    try:
        latticeflow.compile_template(text, Place(Path("t.yaml"), 3), "prompt")
    except EvalsError as error:
        assert str(error).startswith("t.yaml:3: prompt is not a valid template: ")


LOOPS = [
    "{% for x in l %}{{ loop.index }}/{{ loop.length }} {{ x }}{{ ',' if not loop.last }}"
    "{% else %}none{% endfor %}",
    "{% for x in e %}{{ x }}{% else %}none{% endfor %}",
    "{% for x in range(40) %}{{ loop.revindex }}{{ loop.previtem }}{{ loop.nextitem }}"
    "{{ loop.cycle('a', 'b') }}{{ loop.changed(x // 7) }}{{ loop.length }} {% endfor %}",
    "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}{% for c in q %}{{c}}.{% endfor %}",
    "{% for x in tree recursive %}{{ x.n }}({{ loop(x.c) if x.c }}){{ loop.depth }}{% endfor %}",
    "{% for x in l if x > 1 %}{{ loop.index0 }}{{ x }}{% endfor %}",
    "{% for x in l %}{% for y in l %}{{ x * y }} {% endfor %}{% endfor %}",
    "{% for x in l|map('string')|select('ne', '2') %}{{ loop.length }}{{ x }}{% endfor %}",
    "{% for x in nothing %}{% endfor %}",
    "{% macro m(a, b=2) %}{{ a }}{{ b }}{{ caller() }}{% endmacro %}"
    "{% call m(1) %}c{% endcall %}{% set x %}{{ q }}{% endset %}{{ x|upper }}{{ m.name }}",
    "{% filter indent(2) %}{{ q }}\nb{% endfilter %}{{ q ~ 1 ~ none ~ l }}",
    "{% set ns = namespace(t='') %}{% for x in l %}{% set ns.t = ns.t ~ x %}{% endfor %}"
    "{{ ns.t }}",
    "{{ l }}{{ d }}{{ (1, q) }}{{ {'a': [1]} }}{{ none }}{{ 1.5 }}{{ true }}{{ 10**20 }}",
    "{{ q[1:] }}{{ l[::-1] }}{{ l + [4] }}{{ q + 'b' }}{{ l * 2 }}{{ 2 * q }}{{ 7 % 4 }}",
    "{{ '%s: %5.2f%%' % (q, 1.239) }}{{ '%(a)s' % {'a': 1} }}{{ '{:>5}|{x}'.format(1, x=2) }}",
    "{{ '%d-%s'|format(3, q) }}{{ l|join(', ') }}{{ l|map('string')|join('-') }}",
    "{{ '-'.join(['a', 'b']) }}{{ 'a,b'.split(',')|join('|') }}{{ q.center(20) }}",
    "{{ l|sum }}{{ [[1], [2]]|sum(start=[]) }}{{ l|batch(2, 0)|list }}{{ l|slice(2)|list }}",
    "{{ 3.14159|round(2) }}{{ l|tojson }}{{ d|tojson(indent=2) }}{{ q|replace(' ', '_') }}",
    "{{ cycler('a', 'b').next() }}{% set j = joiner() %}{{ j() }}{{ j() }}{{ dict(a=1) }}",
    "{{ q|wordwrap(2) }}{{ q|truncate(2, true, '') }}{{ q|xmlattr if false }}{{ [q]|first }}",
    "{{ l|sort(reverse=true) }}{{ l|unique|list }}{{ tree|map(attribute='n')|list }}",
    "{{ tree|groupby('n')|list|length }}{{ l|random is number }}{{ q|wordcount }}{{ q|e }}",
    "{% autoescape true %}{{ '<' ~ q }}{{ '<' }}{% endautoescape %}{{ '<' }}",
    "{{ q is string and l is iterable }}{{ 'a' in q }}{{ 1 if q else 2 }}{{ -n }}{{ n // 2 }}",
    "{{ range(3)|list }}{{ lipsum(0) }}{{ 'x' * 3 ~ [0] * 2 }}",
]
ROW: dict[str, Any] = {
    "q": "a b",
    "e": [],
    "n": 3,
    "l": [1, 2, 3],
    "d": {"k": "v", "é": 2},
    "tree": [{"n": 1, "c": [{"n": 2, "c": []}]}, {"n": 3, "c": []}],
}


def oracle(text: str, row: Mapping[str, Any]) -> str:
    """Jinja's result, as lm-eval configures it, or the type of its error."""
    environment = jinja2.Environment(
        undefined=jinja2.StrictUndefined, keep_trailing_newline=True
    )
    environment.filters["regex_replace"] = lambda s, p, r, count=0: re.sub(
        p, r, s, count=count
    )
    try:
        return environment.from_string(text).render(row)
    except Exception as error:  # noqa: BLE001 - its kind is what counts
        return type(error).__name__


def ours(text: str, row: Mapping[str, Any]) -> str:
    try:
        return compile_template(text).render(row)
    except Exception as error:  # noqa: BLE001 - its kind is what counts
        return type(error).__name__


@pytest.mark.parametrize("text", LOOPS)
def test_limited_templates_render_as_in_jinja(text: str) -> None:
    assert ours(text, ROW) == oracle(text, ROW)
    given = latticeflow.compile_template(text, Place(Path("t")), "t")
    try:
        found = given.render(ROW)
    except FieldError:
        found = "UndefinedError"
    assert found == oracle(text, ROW)


def templates_of_lm_eval() -> list[str]:
    spec = find_spec("lm_eval")
    if spec is None or spec.origin is None:
        pytest.skip("lm-eval is not installed")
    found: set[str] = set()
    for path in (Path(spec.origin).parent / "tasks").rglob("*.y*ml"):
        for line in path.read_text(encoding="utf-8").splitlines():
            if line.startswith("doc_to_") and "{" in line:
                found.add(line.partition(":")[2].strip())
    texts = []
    for one in sorted(found):
        try:
            texts.append(yaml.safe_load(one))
        except yaml.YAMLError:
            continue
    return [text for text in texts if isinstance(text, str) and "{" in text]


@pytest.mark.nightly
def test_templates_of_lm_eval_render_as_in_jinja() -> None:
    """With values of several types for the names that they use."""
    texts = templates_of_lm_eval()
    assert len(texts) > 300
    kinds: list[Any] = [
        " Some text. ",
        ["A", "b ", "c"],
        {"text": ["a"], "label": [1]},
        1,
    ]
    environment, rendered = jinja2.Environment(), 0
    for number, text in enumerate(texts):
        try:
            names = jinja2.meta.find_undeclared_variables(environment.parse(text))
        except jinja2.TemplateError:
            continue
        for turn in range(len(kinds)):
            row = {
                name: kinds[(turn + number * place) % len(kinds)]
                for place, name in enumerate(sorted(names))
            }
            expected = oracle(text, row)
            assert ours(text, row) == expected, text
            rendered += not expected.endswith("Error")
    assert rendered > 300


@pytest.mark.slow
def test_limits_are_those_of_one_rendering() -> None:
    """Documents do not share budgets."""
    template = compile_template("{% for i in range(99999) %}{{ i }}{% endfor %}")
    for _ in range(30):
        assert len(template.render({})) == 488_885


@pytest.mark.slow
def test_a_long_document_is_not_limited_as_a_bomb() -> None:
    row = {"t": "word " * 10**6, "l": ["line"] * 10**5}
    text = "{{ t|trim }}{{ t.replace('word', 'words') }}{{ t[:100]|upper }}"
    assert len(compile_template(text).render(row)) == 4_999_999 + 6_000_000 + 100
    text = "{% for x in l %}{{ loop.index }}: {{ x }}\n{% endfor %}"
    assert compile_template(text).render(row).count("\n") == 10**5


def test_an_error_names_its_limit() -> None:
    with pytest.raises(TemplateLimitError) as error:
        compile_template("{{ q * 10**9 }}").render(ROW)
    assert str(error.value) == (
        "the template makes more than 33,554,432 characters, or more than 268,435,456 "
        "on the way"
    )
