"""Evals in Python modules, as pytest collects and runs them."""

import json

import pytest

BOT = """
import pytest_evals as ev

@ev.eval(score=[ev.contains()], gates=["contains >= 0.6", "polite >= 0.9"])
def support_bot():
    yield ev.case("How do I reset my password?", target="settings", id="reset")
    yield ev.case("How do I pay?", target="card", id="pay")
    yield ev.case("How do I leave?", target="door", id="leave")

@support_bot.score
def polite(answer, case):
    return "please" in answer.lower()

def test_ordinary():
    pass
"""
FIXTURES = """
import pytest

@pytest.fixture(scope="session")
def words():
    with open("log.txt", "a") as log:
        log.write("up\\n")
    yield {"card": 1}
    with open("log.txt", "a") as log:
        log.write("down\\n")

@pytest.fixture(scope="module")
def extra(words):
    return "!"

@pytest.fixture
def folder(tmp_path):
    return tmp_path
"""


@pytest.fixture
def bot(pytester):
    """Answers of a model, and a folder without an ini file of another project."""
    pytester.makeini("[pytest]\n")
    rules = [
        {"prompt": "password?", "text": "Please open settings"},
        {"prompt": "pay?", "text": "Please use a card"},
        {"text": "no idea"},
    ]
    lines = "\n".join(map(json.dumps, rules))
    (pytester.path / "answers.jsonl").write_text(lines, "utf-8")
    return pytester


def run(bot, *arguments):
    return bot.runpytest("--model=scripted:answers.jsonl", *arguments)


def ids(done):
    return [line for line in done.outlines if "::" in line and " " not in line]


def test_cases_are_documents_and_gates_of_a_test_module(bot):
    bot.makepyfile(test_bot=BOT)
    assert ids(run(bot, "--collect-only", "-q")) == [
        "test_bot.py::support_bot[reset]",
        "test_bot.py::support_bot[pay]",
        "test_bot.py::support_bot[leave]",
        "test_bot.py::test_ordinary",
        "test_bot.py::support_bot::contains",
        "test_bot.py::support_bot::polite",
    ]
    done = run(bot)
    assert done.parseoutcomes() == {"passed": 4, "wrong": 1, "failed": 1}
    done.stdout.fnmatch_lines(["polite 0.667 is not >= 0.9*", "test_bot.py:3"])


@pytest.mark.parametrize(
    ("arguments", "outcomes"),
    [
        (["test_bot.py::support_bot[pay]"], {"passed": 1}),
        (["test_bot.py::support_bot"], {"passed": 3, "wrong": 1, "failed": 1}),
        (
            ["test_bot.py::support_bot::polite"],
            {"passed": 2, "wrong": 1, "failed": 1},
        ),
        (["-k", "pay"], {"passed": 1, "deselected": 5}),
        (["-m", "evals"], {"passed": 3, "wrong": 1, "failed": 1, "deselected": 1}),
        (["-x"], {"passed": 4, "wrong": 1, "failed": 1}),
        (["-n2"], {"passed": 4, "wrong": 1, "failed": 1}),
    ],
)
def test_evals_are_selected_as_tests_are(bot, arguments, outcomes):
    bot.makepyfile(test_bot=BOT)
    assert run(bot, *arguments).parseoutcomes() == outcomes


def test_last_failed_runs_a_failed_gate_with_all_its_cases(bot):
    bot.makepyfile(test_bot=BOT)
    run(bot)
    done = run(bot, "--lf")
    assert done.parseoutcomes() | {"deselected": 0} == {
        "passed": 2,
        "wrong": 1,
        "failed": 1,
        "deselected": 0,
    }


def test_modules_named_as_eval_files_are_collected_if_they_mention_the_package(bot):
    bot.makepyfile(eval_bot=BOT, eval_other="raise SystemExit")
    assert run(bot).parseoutcomes() == {"passed": 4, "wrong": 1, "failed": 1}


@pytest.mark.parametrize("workers", ["-n0", "-n2"])
def test_cases_and_scorers_request_fixtures(bot, workers):
    bot.makeconftest(FIXTURES)
    bot.mkpydir("inner")
    (bot.path / "inner" / "test_it.py").write_text(
        """
import pytest_evals as ev

@ev.eval(score=ev.contains())
async def asks(words, extra):
    for number in range(4):
        for word in words:
            yield ev.case(f"{number}: pay?", target=word)

@asks.score
async def known(output, expected, words, folder):
    return folder.is_dir() and expected in words
""",
        "utf-8",
    )
    done = run(bot, workers)
    assert done.parseoutcomes() == {"passed": 4}
    done.stdout.fnmatch_lines(["asks*contains*1.000*", "*known*1.000*"])
    log = (bot.path / "log.txt").read_text().split()
    assert log.count("up") == log.count("down") == {"-n0": 1, "-n2": 3}[workers]


def test_cases_and_scorers_request_the_fixtures_of_models(bot):
    bot.makepyfile(
        test_bot="""
        import pytest_evals as ev

        @ev.eval(score=[ev.contains()])
        def asks(eval_judge):
            yield ev.case("pay?", target="card", name=eval_judge.name)

        @asks.score
        def rated(answer, row, eval_model, eval_judge):
            return row["name"] == eval_judge.name != eval_model.name
        """
    )
    done = run(bot, "--evals-judge=scripted:echo")
    assert done.parseoutcomes() == {"passed": 1}
    done.stdout.fnmatch_lines(["*rated*1.000*"])


def test_a_fixture_of_a_model_that_is_not_set_is_an_error(bot):
    bot.makepyfile(
        test_bot="""
        import pytest_evals as ev

        @ev.eval(score=[])
        def asks():
            yield ev.case("pay?", target="card")

        @asks.score
        def rated(answer, eval_judge):
            return True
        """
    )
    done = run(bot)
    assert done.parseoutcomes() == {"errors": 1}
    done.stdout.fnmatch_lines(["no judge is set"])


def test_an_exception_in_a_fixture_of_cases_is_an_error_with_its_line(bot):
    bot.makeconftest("""
import pytest

@pytest.fixture(scope="session")
def words():
    raise RuntimeError("no words")
""")
    bot.makepyfile(
        test_it="""
from pytest_evals import case, eval

@eval
def one(words):
    yield case("a", "b")
"""
    )
    done = run(bot)
    assert done.parseoutcomes() == {"errors": 1}
    message = "one: the fixture 'words': RuntimeError: no words (conftest.py:5)"
    done.stdout.fnmatch_lines([f"test_it.py:3: {message}"])
    done.stdout.no_fnmatch_line("*call_fixture_func*")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fixture", "outcomes", "line"),
    [
        ("pytest.skip('no data')", {"skipped": 1}, "SKIPPED * no data"),
        (
            "pytest.fail('no words')",
            {"errors": 1},
            "test_it.py:3: one: the fixture 'words': no words",
        ),
    ],
)
def test_a_fixture_of_cases_that_skips_or_fails_affects_only_its_eval(
    bot, fixture, outcomes, line
):
    bot.makeconftest(
        f"import pytest\n@pytest.fixture(scope='session')\ndef words():\n    {fixture}"
    )
    bot.makepyfile(
        test_it="""
from pytest_evals import case, eval

@eval
def one(words):
    yield case("a", "b")

def test_other():
    pass
"""
    )
    done = run(bot, "--continue-on-collection-errors", "-rs")
    assert done.parseoutcomes() == {"passed": 1, **outcomes}
    done.stdout.fnmatch_lines([line])
    assert run(bot, "-n2").parseoutcomes()[next(iter(outcomes))] >= 1


@pytest.mark.parametrize(
    ("call", "outcomes", "line"),
    [
        ("pytest.skip('no data')", {"skipped": 1}, "SKIPPED * no data"),
        ("pytest.fail('no words')", {"errors": 1}, "test_it.py:4: one: no words"),
    ],
)
def test_a_function_of_cases_can_skip_or_fail_its_eval(bot, call, outcomes, line):
    bot.makepyfile(
        test_it=f"""
import pytest
from pytest_evals import case, eval

@eval
def one():
    yield case("a", "b")
    {call}

def test_other():
    pass
"""
    )
    done = run(bot, "--continue-on-collection-errors", "-rs")
    assert done.parseoutcomes() == {"passed": 1, **outcomes}
    done.stdout.fnmatch_lines([line])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("place", ["cases", "scorer"])
def test_an_async_fixture_without_a_plugin_is_an_error(bot, place):
    bot.makeconftest("""
import pytest

@pytest.fixture(scope="session")
async def words():
    return "a"
""")
    cases = "words" if place == "cases" else ""
    scorer = "answer, words" if place == "scorer" else "answer"
    bot.makepyfile(
        test_it=f"""
from pytest_evals import case, eval

@eval
def one({cases}):
    yield case("a", "b")

@one.score
def good({scorer}):
    return True
"""
    )
    done = run(bot)
    assert done.parseoutcomes()["errors"] == 1
    done.stdout.fnmatch_lines(["*async*"])


def test_scorers_request_fixtures_of_each_test(bot):
    bot.makepyfile(
        test_it="""
import logging
from pytest_evals import case, eval

@eval
def one():
    yield case("a", "a", id="x")
    yield case("b", "b", id="y")

@one.score
def good(answer, request, tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("ANSWER", answer)
    logging.warning("seen")
    (tmp_path / answer).write_text("")
    files = [one.name for one in tmp_path.iterdir()]
    logged = [one.message for one in caplog.records]
    return files == [answer] and logged == ["seen"] and "one[" in request.node.name
"""
    )
    done = bot.runpytest("--model=scripted:echo")
    done.stdout.fnmatch_lines(["*good*1.000*"])


def test_an_eval_in_a_class_is_refused(bot):
    bot.makepyfile(
        test_it="""
from pytest_evals import case, eval

class TestBot:
    @eval
    def one():
        yield case("a", "b")
"""
    )
    done = run(bot)
    assert done.parseoutcomes() == {"errors": 1}
    done.stdout.fnmatch_lines(["test_it.py:4: the eval 'one' is in a class"])


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (
            "def one(tmp_path): yield case('a', 'b')",
            "*'tmp_path', whose scope is func*",
        ),
        ("def one(nothing): yield case('a', 'b')", "*'nothing', which does not exist*"),
        (
            "def one():\n    yield case('a', 'b')\n    raise KeyError('c')",
            "test_it.py:2: the cases of one: KeyError: 'c' (test_it.py:5)",
        ),
        ("def one(): return []", "test_it.py:2: the eval has no cases"),
        ("def one(): yield 3", "test_it.py:2: one: case 0 is a int, not a case"),
        (
            "def one():\n    yield case('a', id='x')\n    yield case('b', id='x')",
            "test_it.py:2: one: cases 0 and 1 have the id 'x'",
        ),
        (
            "def one():\n    yield case('a', id='1')\n    yield case('b')",
            "test_it.py:2: one: cases 0 and 1 have the id '1'",
        ),
    ],
)
def test_problems_of_an_eval_are_errors_without_traceback(bot, code, message):
    text = f"from pytest_evals import case, eval\n@eval\n{code}\ndef test_b(): pass\n"
    bot.makepyfile(test_it=text)
    done = run(bot, "--continue-on-collection-errors")
    assert done.parseoutcomes() == {"passed": 1, "errors": 1}
    done.stdout.fnmatch_lines([message])
    done.stdout.no_fnmatch_line("*Traceback*")
    done.stdout.no_fnmatch_line("*dialects*")


def test_an_unknown_name_of_the_package_is_an_error_with_the_line_that_uses_it(bot):
    bot.makepyfile(test_it="import pytest_evals as ev\n\nev.contain('a')\n")
    done = run(bot)
    assert done.parseoutcomes() == {"errors": 1}
    done.stdout.fnmatch_lines(
        ["test_it.py:3: in <module>", "*did you mean 'contains'*"]
    )
    done.stdout.no_fnmatch_line("*__getattr__*")


def test_an_exception_in_a_scorer_is_an_error_with_its_line(bot):
    bot.makepyfile(
        test_bot=BOT
        + "\n@support_bot.score('late')\ndef late(answer):\n    return {}[answer]\n"
    )
    done = run(bot)
    assert done.parseoutcomes()["errors"] == 3
    done.stdout.fnmatch_lines(
        ["scorer 'late': KeyError: 'Please open settings' (test_bot.py:18)"]
    )


@pytest.mark.parametrize(
    "value", ["Score()", "Score(value=math.nan)", "Score(value='good')", "10**400"]
)
def test_a_scorer_without_a_finite_number_is_an_error(bot, value):
    bot.makepyfile(
        test_bot="import math\nfrom pytest_evals import Score\n"
        + BOT
        + f"\n@support_bot.score('late')\ndef late(answer):\n    return {value}\n"
    )
    done = run(bot)
    assert done.parseoutcomes()["errors"] == 3
    done.stdout.fnmatch_lines(["*scorer 'late': the scorer returned *"])


def test_a_score_without_value_has_that_of_correct(bot):
    bot.makepyfile(
        test_bot="from pytest_evals import Score\n"
        + BOT
        + "\n@support_bot.score\ndef good(answer):\n"
        + "    return Score(correct='card' in answer)\n"
    )
    run(bot).stdout.fnmatch_lines(["*good*0.333*"])


def test_marks_of_the_function_apply_to_its_cases_and_gates(bot):
    marked = BOT.replace("@ev.eval", "@pytest.mark.skip(reason='later')\n@ev.eval")
    bot.makepyfile(test_bot="import pytest" + marked)
    assert run(bot).parseoutcomes() == {"passed": 1, "skipped": 5}


def test_an_imported_eval_is_collected_once(bot):
    bot.makepyfile(
        test_bot=BOT, test_other="import pytest_evals\nfrom test_bot import support_bot"
    )
    outcomes = {"passed": 4, "wrong": 1, "failed": 1}
    assert run(bot).parseoutcomes() == outcomes


def test_function_evals_and_the_same_eval_in_yaml_have_the_same_numbers(bot):
    bot.makepyfile(test_bot=BOT)
    (bot.path / "yaml_bot.yaml").write_text(
        """
prompt: "{{q}}"
rows:
  - {q: "How do I reset my password?", target: settings}
  - {q: "How do I pay?", target: card}
  - {q: "How do I leave?", target: door}
score: contains
""",
        "utf-8",
    )
    done = run(bot, "-rN")
    done.stdout.fnmatch_lines(
        ["support_bot*contains*0.667*", "yaml_bot*contains*0.667*"]
    )


@pytest.mark.parametrize("arguments", [(), ("-n2",)])
def test_a_function_of_the_application_answers_without_a_model(bot, arguments):
    code = BOT.replace("@ev.eval(", "@ev.eval(model=respond, ").replace(
        "@ev.eval",
        "async def respond(prompt):\n"
        "    if 'leave' in prompt:\n"
        "        raise LookupError('no door')\n"
        "    return 'Please use settings or a card'\n\n"
        "@ev.eval",
        1,
    )
    bot.makepyfile(test_bot=code)
    result = bot.runpytest("test_bot.py", *arguments)
    counts = result.parseoutcomes()
    assert (counts["errors"], counts["failed"]) == (1, 1)  # polite: invalid
    result.stdout.fnmatch_lines(["*LookupError: no door (test_bot.py:*)*"])


def test_an_eval_with_its_own_model_has_its_calls_cost_and_latency(pytester):
    pytester.makeini("[pytest]\n")
    pytester.makepyfile(
        test_shop="""
        import pytest_evals as ev

        def shop(prompt):
            call = {"name": "find", "arguments": {}}
            return {"text": "Found.", "calls": [call], "cost": 0.5, "latency_s": 2.0}

        gates = ["called >= 1", "cost <= 0.4", "latency_p99 <= 3"]

        @ev.eval(model=shop, score=[ev.called("refund")], gates=gates)
        def bot():
            yield ev.case("Find it.", id="a")
        """
    )
    out = pytester.runpytest("test_shop.py")
    out.stdout.fnmatch_lines(["*calls   find({})", "cost 0.500 is not <= 0.4"])
    out.stdout.no_fnmatch_line("*latency_p99 <= 3*FAILED*")
    out.stdout.no_fnmatch_line("*INVALID*")
