"""Invalid values and combinations of options: the error, and where the option was
set."""

import pytest


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("--evals-tasks=,", "--evals-tasks=,: expected names of tasks*"),
        ("--evals-only=,", "--evals-only=,: expected one or more of wrong, error, *"),
        (
            "--evals-latticeflow-allow-code=nosuch",
            "--evals-latticeflow-allow-code: */nosuch is not a folder",
        ),
        (
            "--evals-cache=never",
            "--evals-cache=never: expected use, refresh, off or only",
        ),
        ("--evals-judge=gpt", "--evals-judge: 'gpt' has no model kind*"),
        ("--evals-metadata={a", "--evals-metadata={a: invalid JSON: *"),
        (
            "--evals-limit=2 --evals-sample=2",
            "--evals-limit and --evals-sample both choose documents; give one",
        ),
        (
            "--evals-plan --evals-repeatability=3",
            "--evals-plan and --evals-repeatability are different kinds of runs; *",
        ),
        (
            "--evals-validate --evals-save-baseline=main",
            "--evals-validate and --evals-save-baseline contradict each other: *",
        ),
        (
            "--evals-repeatability=2 --evals-cache=only",
            "--evals-cache=only and --evals-repeatability contradict each other: *",
        ),
    ],
)
def test_invalid_options_are_refused(suite, given, message):
    result = suite.run(*given.split(), "evals")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {message}"])


@pytest.mark.slow
def test_invalid_ini_values_are_refused_with_their_location(suite):
    def errors(ini: str, *arguments: str) -> list[str]:
        suite.pytester.makeini(f"[pytest]\n{ini}\n")
        result = suite.run("evals", *arguments)
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        return result.errlines[:2]

    path = suite.pytester.path / "tox.ini"
    place = f"is set by {{}} in {path}; {{}}= overrides it"
    limit = place.format("evals_limit", "--evals-limit")
    two = "--evals-limit and --evals-sample both choose documents; give one"
    assert errors("evals_limit = 2", "--evals-sample=3") == [
        f"ERROR: {two}",
        f"  --evals-limit {limit}",
    ]
    # even if it is detected after the files were read
    tasks = place.format("evals_tasks", "--evals-tasks")
    assert errors("evals_tasks = quis") == [
        "ERROR: --evals-tasks: unknown task, group or tag 'quis'; did you mean 'quiz'?",
        f"  --evals-tasks {tasks}",
    ]
    assert errors("", "-o", "evals_stop=x") == [
        "ERROR: --evals-stop=x: expected off, curtail or auto",
        "  --evals-stop is set by -o evals_stop",
    ]
    assert errors("evals_cache = only", "--evals-repeatability=2") == [
        "ERROR: --evals-cache=only and --evals-repeatability contradict each other: "
        "repeated runs need the model; give one",
        f"  --evals-cache {place.format('evals_cache', '--evals-cache')}",
    ]
    (first, *_) = errors("evals_strict = maybe")
    assert first.startswith(f"ERROR: evals_strict in {path}: ")
    assert first.endswith("write true or false")


def test_an_empty_option_overrides_the_ini_file(suite):
    suite.pytester.makeini("[pytest]\nevals_limit = 2\n")
    assert suite.run("evals").parseoutcomes() == {"passed": 2}
    assert suite.run("evals", "--evals-limit=").parseoutcomes() == {"passed": 10}


@pytest.mark.parametrize("name", ["dir", "json", "html", "markdown"])
def test_a_path_that_is_too_long_is_refused(suite, name):
    suite.task("quiz", gates=["exact_match >= 0.5"])
    result = suite.run("evals", f"--evals-{name}={'x' * 300}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: cannot *xxx*: File name too long", "  fix: *"])


def test_a_list_of_tasks_that_is_not_utf8_is_refused_with_its_line(suite):
    (suite.pytester.path / "names.txt").write_bytes(b"quiz\nqu\xefz\n")
    result = suite.run("evals", "--evals-tasks=names.txt")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    message = "ERROR: --evals-tasks: names.txt:2: the file is not UTF-8 (byte 0xef)"
    result.stderr.fnmatch_lines([message.replace("[", "[[]"), "  fix: convert it, *"])


@pytest.mark.parametrize(
    "given",
    [
        "--evals-system-instruction=\udced\udca0\udc80",
        "--evals-judge=scripted:\udcff",
        "--evals-latticeflow-config=a=\udcff",
        "--evals-gate=quiz/acc >= \udcff",
        "--evals-tasks=\udcff",
        "--evals-save-baseline=\udcff",
        '--evals-metadata={"a": ["\\ud800"]}',
        '--evals-gen-kwargs={"stop": "\\udfff"}',
        r"--evals-reasoning-tags=[('\ud800', 'b')]",
    ],
)
def test_a_text_that_utf_8_cannot_encode_is_refused(suite, given):
    result = suite.run(given, "evals")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    option = given.partition("=")[0]
    result.stderr.re_match_lines(
        [rf"ERROR: {option}.*: .*character \d+ is .*, which UTF-8 cannot encode"]
    )


def test_a_python_literal_with_a_lone_surrogate_is_kept_as_typed(suite):
    suite.run(r"--evals-metadata=a='\ud800'", "evals").assert_outcomes(passed=10)


def test_folders_may_have_names_that_are_not_utf_8(suite):
    result = suite.run("--evals-dir=runs\udcff", "evals")
    assert result.ret == pytest.ExitCode.OK
    assert list((suite.pytester.path / "runs\udcff").glob("runs/*/results.json"))
