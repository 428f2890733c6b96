"""Values that mutations insert: wrong, unusual or costly, by place."""

from __future__ import annotations

__all__ = [
    "BYTES", "GATES", "JSON", "MODELS", "OPTIONS", "PYTEST", "PYTHON", "REPLIES", "SAFE_PYTEST",
    "SELECTING", "YAML",
]  # fmt: skip

BIDI = "\u202e"
LONG = "x" * 5_000
HARD_TEXT = "a" * 60 + "!"

NUMBERS = (
    "0", "-1", "1", "2", "0.5", "-0.0", "1e308", "1e999", ".nan", ".inf", "-.inf", "1_000",
    "0x10", "017", "1" + "0" * 400, "-9223372036854775809", "18446744073709551616", "1e-320",
)  # fmt: skip

TEMPLATES = (
    "'{{ question'", "'{{ nothing }}'", "'{{ nothing.at.all }}'", "'{{ 1/0 }}'", "'{% if %}'",
    "'{{ question | nofilter }}'", "'{% include \"x\" %}'", "'{{ [][1] }}'", "'{{ none }}'",
    "'{% for i in range(999999999) %}x{% endfor %}'", "\"{{ 'a' * 10**10 }}\"",
    "'{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}'",
    "'" + "{% if 1 %}" * 200 + "{% endif %}" * 200 + "'", "'{{ " + "(" * 2000 + ")" * 2000 + " }}'",
    "\"{{ ''.__class__.__mro__[1].__subclasses__() }}\"", "'{{ question.format_map }}'",
    "'{{ range(10) | list | tojson }}'", "\"{{ 'a'.center(10**10) }}\"", "'{{ 9**9**9 }}'",
    "'{{ self }}'", "'{{ cycler }}'", "'{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}'",
    "'{% set x = namespace() %}{{ x.y }}'", "'{{ question[0:10**30] }}'", "'{#'", "'{{}}'",
    "'{{ question | tojson | fromjson }}'", "'{% raw %}'", "'{{ \"%s\" | format }}'",
)  # fmt: skip

REGEXES = (
    "'(a+)+$'", "'(a|aa)+$'", "'^(\\w+\\s?)*$'", "'(.*)*x'", "'('", "'['", "'*'", "'(?P<x>'", "'\\1'",
    "'(?<=a+)b'", "''", "'(a{1,1000}){1,1000}$'", "'(?i'", "'\\p{L}'", "'(?P<a>.)(?P<a>.)'",
    "'(?:a?){60}a{60}'", "'" + "(" * 300 + "a" + ")" * 300 + "'", "'a{99999999999}'",
)  # fmt: skip

ODD_STRINGS = (
    "''", "' '", "'\u202eabc'", '"\\0"', '"\\ud800"', '"\\x1b[31mred"', f"'{LONG}'", "'../../x'",
    "'##[error]x'", "'::error::x'", "'a/b'", "'a::b'", "'[x]'", "'%'", "'{}'",
    "'١'", "'ﬁ'", "'none'", "'None'", "'acc'", "'test'", "'train'", "\"a\\nb\"", "'<b>'", "'é́'",
    "'NaN'", "'a,b'", "'>='", "'*'", "'-'", f"'{HARD_TEXT}'", "'\u2028'",
)  # fmt: skip

ODD_NODES = (
    "null", "~", "true", "false", "[]", "{}", "[null]", "[[]]", "{null: null}", "{1: 2}",
    "{[a]: b}", "{a: 1, a: 2}", "[1, two, null]", "2020-01-01", "2020-01-01 10:00:00", "!!binary aGk=",
    "!!set {a, b}", "!!omap [a: 1]", "!!python/object/apply:os.getcwd []", "!function helpers.clean",
    "!function helpers.nothing", "!function nowhere.at_all", "!function helpers", "!function ''",
    "!include nowhere.yaml", "!unknown x", "*nowhere", "&a [*a]", "{<<: 1}", "{<<: {a: 1}}", "!!int x",
    "!!float []", "!!str", "=", "<<", "!!null x", "{? {a: b} : c}", "0b11", "12:30:45", "yes", "on",
    "[" * 60 + "]" * 60, "[" * 3000 + "]" * 3000, "{a: " * 60 + "1" + "}" * 60,
    "{a: &a [x, x, x, x, x, x, x, x, x], b: &b [*a, *a, *a, *a, *a, *a, *a, *a, *a],"
    " c: &c [*b, *b, *b, *b, *b, *b, *b, *b, *b], d: &d [*c, *c, *c, *c, *c, *c, *c, *c, *c],"
    " e: &e [*d, *d, *d, *d, *d, *d, *d, *d, *d], f: [*e, *e, *e, *e, *e, *e, *e, *e, *e]}",
)  # fmt: skip

GATE_TEXTS = (
    "'acc => 0.1'", "'acc >= '", "'>= 0.1'", "'acc >= 0.1 or acc <= 2'", "'nothing/acc >= 0.1'",
    "'acc >= 101%'", "'acc >= -1'", "'acc >= nan'", "'acc >= 0'", "'acc < 0'", "'ac >= 0.1'",
    "{metric: acc}", "{min: 0.1}", "{metric: acc, min: x}", "{metric: acc, min: 0.9, max: 0.1}",
    "{metric: acc, baseline: main, max_drop: 0.1}", "{must_pass: []}", "{must_pass: [nobody]}",
    "{must_pass: nobody}", "{metric: acc, min: 0.1, over: population, confidence: 2}",
    "{metric: acc, min: 0.1, over: population}", "{metric: acc, min: 0.1, noise: -1}",
    "{metric: acc, min: 0.1, skip: '1/0'}", "{metric: acc, min: 0.1, id: 'a::b'}",
    "{metric: acc, min: 0.1, cluster: nothing}", "{metric: acc, baseline: '..', max_drop: 2%}",
)  # fmt: skip

YAML = {
    "number": NUMBERS,
    "template": TEMPLATES,
    "regex": REGEXES,
    "string": ODD_STRINGS,
    "node": ODD_NODES,
    "gate": GATE_TEXTS,
}
"""Values in YAML syntax, by type."""

JSON = (
    "null", "true", "0", "-1", "1e999", "NaN", "-Infinity", "1" + "0" * 400, '""', '" "', "[]", "{}",
    "[null]", '{"a": null}', '"\\ud800"', '"\\u0000"', '"\\u202ex"', '"\\u001b[31m"', f'"{HARD_TEXT}"',
    '"{{ 7*7 }}"', '"##[error]x"', '"::error::x"', '"a\\nb"', f'"{"x" * 100_000}"', "[" * 500 + "]" * 500,
    "[" * 100_000 + "]" * 100_000, '{"a":' * 500 + "1" + "}" * 500, '{"a": 1, "a": 2}', "3.0", '"3"',
    '"2020-01-01"', "[1, \"two\", null]", "99", "-99", "1.5", "'x'", "", "undefined", '"\\x"',
)  # fmt: skip
"""Values in a line of a data file; some are not JSON."""

PYTHON = (
    "None", "True", "-1", "0", "10**400", "float('nan')", "float('inf')", "''", "'\\u202e'", "'\\ud800'",
    "b'x'", "[]", "{}", "()", "[None]", "object()", "1/0", "lambda *a, **k: None", "undefined", "'x'",
    "range(3)", "{'a': {1}}", "iter(())", "Exception('x')", "type", "...", "[[]]", "3.5", "'99'", "print",
)  # fmt: skip
"""Expressions for Python files."""

REPLIES = (
    "yield place, Response(text=None)", "yield place, Response(text=5)", "yield place, Response(text=b'x')",
    "yield place, Response(logprob=float('nan'))", "yield place, Response(logprob=float('inf'))",
    "yield place, Response(logprob=5.0)", "yield place, Response(logprob=True)",
    "yield place, Response(logprob='x')", "yield place, Response(logprob=-10**400)",
    "yield place, Response(logprob=-0.5, greedy='yes')", "yield place, Response(error=5)",
    "yield place, Response(error='')", "yield place, Response()", "yield place, None", "yield place",
    "yield place, {'text': 'x'}", "yield -1, Response(text='x')", "yield 10**9, Response(text='x')",
    "yield 'x', Response(text='x')", "yield None, Response(text='x')", "yield place, Response(text='\\ud800')",
    "yield place, Response(text='\\u202e##[error]x')", "yield place, Response(text='x' * 10**6)",
    "yield 0, Response(text='x', logprob=-0.5)", "raise RuntimeError('boom')", "raise StopIteration",
    "raise SystemExit(0)", "raise KeyboardInterrupt", "return", "return [(0, Response(text='x'))]",
    "yield place, Response(text='x', n_tokens=10**400)", "yield place, Response(text='x', n_tokens=-1)",
    "yield place, Response(text='x', n_tokens='x')", "yield place, Response(text='x', finish=5)",
    "yield place, Response(text='x', elapsed_s=float('nan'))", "yield place, Response(text=('x',))",
    "yield place, Response(error='\\u202e\\x1b[31m' * 1000)", "yield (place, Response(text='x'), 1)",
    "yield place, Response(txt='x')", "raise BaseException('x')", "raise MemoryError", "yield from requests",
    "raise RecursionError", "import pytest; pytest.skip('x')", "import pytest; pytest.exit('x')",
    "import pytest; pytest.fail('x')", "raise RuntimeError(object())", "raise UnicodeDecodeError('a', b'', 0, 1, 'x')",
)  # fmt: skip
"""Bodies of a model's ``answer`` for one request."""

BYTES = (
    b"\xff\xfe", b"\x00", b"\xed\xa0\x80", "\u202e".encode(), b"\xef\xbb\xbf", b"\t", b"\r", b"\x1b[31m",
    b"\xc2\x85", b"\xe2\x80\xa8", b"\x80", b"'", b'"', b"{", b"}", b"[", b"]", b":", b"#", b"&", b"*", b"|",
    b"%", b"---\n", b"...\n", b"\n", b"\n\n", b"- ", b": ", b"\\", b",", b"!", b"@", b"`", b"?", b"\x07",
)  # fmt: skip
"""Bytes at any position of a damaged file."""

OPTIONS = (
    "", " ", "0", "1", "-1", "2", "3", "1.5", "50%", "0%", "101%", "-5%", "nan", "inf", "1e999", "1" + "0" * 400,
    "x", "None", "none", "true", "false", "\u202e", "\ud800", "../x", "/proc/x/y",
    "a" * 300, "a=b", "a=", "=b", "a=b,a=c", "{", "{}", "[]", '{"a": 1}', '{"a":' * 2000, "a,b", ",", "*",
    "[", "(a+)+$", "::", "a::b", "evals", "evals/gates.yaml", "sums", "sums|2", "sums|x", "sums@n=8",
    "colours,nobody", "small*", "answers.jsonl", "pytest.ini", ".", "..", "main", "temperature=x", "auto",
    "temperature=nan", "max_gen_toks=-1", "until=x", "do_sample=true,temperature=0.5", "acc >= 0.1", "acc => 1",
    "nobody/acc >= 0.1", "sums/exact_match >= 0", "acc >= nan", "cpu", "cuda", "cuda:99", "gates", "docs",
    "warn", "fail", "pass", "off", "curtail", "use", "refresh", "only", "wrong", "error", "regressed", "wrong,error", "1e-5", "0x10", "١",
)  # fmt: skip
"""Values of options."""

GATES = {
    "lm_eval": (
        "0.0123", "60.0124", "0.9125", "sum-easy-126", "0.0127", "0.0128", "0.0129", "0.0134",
        "9000.0131", "0.9132",
    ),
    "latticeflow": ("0.0223", "0.0224", "9000.0225"),
    "lighteval": ("0.0331", "0.0332", "0.0333", "900.0334", "9000.0335"),
    "native": ("0.0431", "0.0432", "0.0433", "0.0434", "0.0441", "0.9442", "0.0443", "9000.0444"),
}  # fmt: skip
"""A text of each gate that occurs nowhere else in its suite."""

# Options that exclude documents or gates from a run, or do not run it.
SELECTING = {
    "tasks", "python-files", "cache-info", "only", "plan", "prefetch", "validate",
    "cache", "limit", "sample",
}  # fmt: skip

MODELS = (
    "scripted:first", "scripted:echo", "scripted:fail", "scripted:break", "scripted:", "scripted:nobody",
    "scripted:answers.jsonl,x=1", "scripted:evals", "scripted:pytest.ini", "hf:", "hf:nowhere", "hf:evals",
    "openai:", "openai:x,base_url=nonsense", "openai:x,base_url=http://127.0.0.1:9/v1,max_retries=0", ":", "x",
    "openai:x,base_url=http://127.0.0.1:9/v1,max_retries=0,timeout=-1", "hf:evals,dtype=x", "scripted:\u202e",
)  # fmt: skip

PYTEST = (
    "-x", "-q", "-v", "-vv", "-rA", "--co", "--lf", "--ff", "--sw", "-s", "--maxfail=1", "-k=sum", "-m=small",
    "-k=nobody", "--tb=short", "--tb=no", "--junitxml=j.xml", "-Werror", "-p no:terminal", "-p no:cacheprovider",
    "--durations=3", "--setup-plan", "--fixtures", "--markers", "--strict-markers", "--no-header", "--no-summary",
    "--collect-only", "-p no:logging", "--capture=no", "--color=yes", "--evals-nothing=1", "--evals-limi=1",
    "--deselect=evals/sums.yaml", "--ignore=evals/gates.yaml", "--rootdir=evals", "evals::x", "nowhere",
    "evals/sums.yaml::sums[sum-2]", "evals/sums.yaml::sums::long", "evals/all.yaml::all_of_it", "--pdb",
)  # fmt: skip

SAFE_PYTEST = {"-q", "-v", "-vv", "-rA", "-s", "--tb=short", "--tb=no", "--junitxml=j.xml", "--no-header",
               "-p no:cacheprovider", "--durations=3", "--strict-markers"}  # fmt: skip
