"""``pytest.mark.parametrize`` on evals in Python, and async scorers."""

from __future__ import annotations

import pytest

EVAL = """
import pytest
import pytest_evals as ev

{marks}
@ev.eval(score=[ev.contains()], gates=["contains >= 0.5"])
def bot({arguments}):
    yield ev.case(f"Hello {{lang}}", target=f"{{lang}}", id="greet")
    yield ev.case(f"Bye {{lang}}", target="bye")

@bot.score
def known(answer, case):
    return case["lang"] in ("en", "de")
"""


@pytest.fixture
def run(pytester):
    pytester.makeini("[pytest]\n")
    pytester.makefile(".jsonl", m='{"text": "Hello en"}')

    def run(text, *arguments):
        pytester.makepyfile(test_bot=text)
        model = "--model=scripted:m.jsonl"
        return pytester.runpytest_inprocess("test_bot.py", model, *arguments)

    return run


@pytest.mark.parametrize("workers", [[], ["-n2"]])
def test_each_parameter_set_has_its_cases_with_the_ids_of_pytest(run, workers):
    marks = (
        '@pytest.mark.parametrize("lang", ["en", pytest.param("de", id="german")])\n'
        '@pytest.mark.parametrize("n", [1, 2])'
    )
    done = run(EVAL.format(marks=marks, arguments="lang, n"), "-v", *workers)
    assert done.parseoutcomes() == {"passed": 4, "wrong": 6, "failed": 2}
    text = done.stdout.str()
    for which in ("1-en", "1-german", "2-en", "2-german"):
        assert f"bot[{which}-greet]" in text and f"bot[{which}-1]" in text
        assert f"bot::contains[{which}]" in text
    done.stdout.fnmatch_lines(["*known * 1.000 *"])


def test_prompts_of_parameter_sets_are_compared_as_variants(run, pytester):
    """Two of the three prompts are too long to be names."""
    long = "Hello! " * 20
    text = EVAL.replace("Hello", "{{start}}").replace(' gates=["contains >= 0.5"]', "")
    text = text.replace("{{lang}}", "en").format(
        marks=f'@pytest.mark.parametrize("start", ["Hello", {long!r}, {long + "x"!r}])',
        arguments="start",
    )
    text = text.replace('case["lang"] in ("en", "de")', 'case["start"] == "Hello"')
    done = run(text, "--evals-html=r.html", "--evals-markdown=r.md")
    done.stdout.fnmatch_lines(
        [
            "*= evals: variants =*",
            "bot *contains * 0.500 *",
            "*start1 *0.500 *+0.000 *",
            "*start2 *0.500 *+0.000 *",
            "*known * 1.000 *",
            "*start1 *0.000 *-1.000 *",
            "*start2 *0.000 *-1.000 *",
            "documents: 1 all correct, 1 all wrong, 0 they disagree",
            "report: r-variants.html",
        ]
    )
    assert "## Variants" in (pytester.path / "r.md").read_text()


@pytest.mark.parametrize(
    ("mark", "message"),
    [
        ('"other", [1]', "*bot: *function uses no argument 'other'*"),
        ('"lang", ["en"], indirect=True', "*indirect=True is not supported*"),
        ('"lang", []', "*bot: parametrize has no values*"),
        (
            '"lang", [pytest.param("en", marks=pytest.mark.slow)]',
            "*marks=*is not supported*",
        ),
        ('"lang", "en", ids=[1, 2, 3]', "*bot: *2 parameter sets specified*"),
    ],
)
def test_unsupported_keys_are_errors_of_the_eval(run, mark, message):
    text = EVAL.format(marks=f"@pytest.mark.parametrize({mark})", arguments="lang")
    done = run(text + "\n\ndef test_other():\n    pass\n")
    assert done.ret == pytest.ExitCode.INTERRUPTED
    done.stdout.fnmatch_lines([message])


ASYNC = """
import asyncio
import pytest_evals as ev

peak = now = 0

@ev.eval(score=[ev.contains()])
def bot():
    for n in range(40):
        yield ev.case(f"Hello {n}", target="Hello")

@bot.score
async def slow(answer, case):
    global peak, now
    now += 1
    peak = max(peak, now)
    await asyncio.sleep(0.05)
    now -= 1
    if case.prompt == "Hello 7":
        raise ValueError("seven")
    return answer == "Hello en"

def test_peak():
    assert 4 <= peak <= 16
"""


def test_async_scorers_of_several_cases_run_at_a_time(run):
    done = run(ASYNC)
    assert done.parseoutcomes() == {"passed": 40, "errors": 1}
    done.stdout.fnmatch_lines(["*scorer 'slow'*ValueError: seven*"])
