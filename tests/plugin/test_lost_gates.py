"""Gates must not be lost by documents without the metric, by metadata of other files,
or because nothing judges them."""

from __future__ import annotations

import pytest

ROWS = '{"q": "a", "a": "a"}\n{"q": "b", "a": "b"}\n'
TASK = """\
dataset_path: json
dataset_kwargs: {data_files: {test: d.jsonl}}
test_split: test
output_type: generate_until
doc_to_text: "{{q}}"
doc_to_target: "{{a}}"
"""
EVAL = """\
prompt: "{{q}}"
rows: [{id: a, q: one, target: one}, {id: b, q: two, target: zwei}]
"""
ECHO = "--model=scripted:echo"


def run(pytester, *arguments):
    return pytester.runpytest_inprocess("-p", "no:cacheprovider", ECHO, *arguments)


@pytest.fixture
def half(pytester):
    """A task whose ``process_results`` returns nothing for one of two documents."""
    (pytester.path / "d.jsonl").write_text(ROWS)
    (pytester.path / "u.py").write_text(
        "def p(doc, results):\n    return {'em': 1.0} if doc['q'] == 'a' else {}\n"
    )

    def write(gate, metadata=""):
        (pytester.path / "t.yaml").write_text(
            f"task: t\n{TASK}process_results: !function u.p\n"
            "metric_list: [{metric: em, aggregation: mean, higher_is_better: true}]\n"
            f"metadata: {{version: 1, gates: [{gate}]{metadata}}}\n"
        )

    return write


def test_a_gate_over_a_metric_that_a_scored_document_lacks_is_invalid(pytester, half):
    half("em >= 0.5")
    result = run(pytester, "t.yaml")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*invalid: 1 of 2 documents has no em, although*"])
    result.stdout.fnmatch_lines(["t *1/2*em *1.000 *>= 0.5 *INVALID"])


@pytest.mark.parametrize(
    ("gate", "metadata"),
    [
        ("{metric: em, min: 0.5, missing: allowed}", ""),
        ("em >= 0.5", ", missing: allowed"),
    ],
)
def test_missing_allowed_judges_the_documents_that_have_the_metric(
    pytester, half, gate, metadata
):
    half(gate, metadata)
    run(pytester, "t.yaml").stdout.fnmatch_lines(["gates: 1 passed"])


def test_a_score_hook_that_returns_no_scores_makes_its_gate_invalid(pytester):
    (pytester.path / "t.yaml").write_text(f"{EVAL}gates: [exact >= 0.1]\n")
    pytester.makeconftest(
        "def pytest_evals_score(record, task):\n"
        "    return () if record.doc.id == 'b' else None\n"
    )
    result = run(pytester, "t.yaml")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["gates: 1 invalid"])


def test_an_exception_in_one_scorer_leaves_gates_on_the_others_alone(pytester):
    pytester.makepyfile(
        test_it="""
        import pytest_evals as ev
        @ev.eval(score=[ev.contains()], gates=["contains >= 0.9", "b >= 0.9"])
        def iso():
            yield ev.case("x", target="x", id="r")
            yield ev.case("y", target="y", id="s")
        @iso.score
        def b(answer):
            if answer == "y":
                raise KeyError("score")
            return True
        """
    )
    result = run(pytester, "test_it.py")
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        ["iso *contains *1.000 *passed", "*b *INVALID", "gates: 1 passed, 1 invalid"]
    )


def test_an_exception_in_one_metric_of_a_task_leaves_the_others_alone(pytester):
    (pytester.path / "d.jsonl").write_text(ROWS)
    (pytester.path / "u.py").write_text("def broken(items):\n    return 1 / 0\n")
    (pytester.path / "t.yaml").write_text(
        f"task: t\n{TASK}metric_list:\n"
        "  - {metric: exact_match, aggregation: mean, higher_is_better: true}\n"
        "  - {metric: !function u.broken, aggregation: mean, higher_is_better: true}\n"
        "gates: [exact_match >= 0.9]\n"
    )
    result = run(pytester, "t.yaml")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["gates: 1 passed"])


def test_a_metric_that_cannot_be_computed_fails_the_session_and_is_no_baseline(
    pytester,
):
    (pytester.path / "d.jsonl").write_text(ROWS)
    (pytester.path / "u.py").write_text("def total(items):\n    return 1 / 0\n")
    (pytester.path / "t.yaml").write_text(
        f"task: t\n{TASK}metric_list: [{{metric: exact_match, "
        "aggregation: !function u.total, higher_is_better: true}]\n"
    )
    result = run(pytester, "t.yaml", "--evals-save-baseline=main")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["error: t: exact_match,none has no value: *"])
    assert not (pytester.path / ".evals" / "baselines" / "main").exists()


def test_other_metadata_does_not_remove_the_gates_of_an_included_file(pytester):
    (pytester.path / "d.jsonl").write_text(ROWS)
    (pytester.path / "base.yaml").write_text(
        f"{TASK}metadata: {{version: 1, gates: [exact_match >= 0.5]}}\n"
    )
    for text in ("{version: 2}", "3.0", "null"):
        (pytester.path / "t.yaml").write_text(
            f"include: base.yaml\ntask: t\nmetadata: {text}\n"
        )
        result = run(pytester, "t.yaml")
        result.stdout.fnmatch_lines(["gates: 1 passed"])


def test_other_metadata_of_a_group_member_does_not_remove_its_gates(pytester):
    (pytester.path / "d.jsonl").write_text(ROWS)
    (pytester.path / "u.yaml").write_text(
        f"task: u\n{TASK}metadata: {{version: 1, gates: [exact_match >= 0.5]}}\n"
    )
    (pytester.path / "g.yaml").write_text(
        "group: g\ntask: [{task: u, metadata: {version: 2}}]\n"
    )
    run(pytester, "g.yaml").stdout.fnmatch_lines(["gates: 1 passed"])


def test_gates_that_replace_those_of_an_included_file_are_reported(pytester):
    (pytester.path / "d.jsonl").write_text(ROWS)
    (pytester.path / "base.yaml").write_text(f"{TASK}gates: [exact_match >= 0.9]\n")
    (pytester.path / "t.yaml").write_text(
        "include: base.yaml\ntask: t\ngates: [exact_match >= 0.1]\n"
    )
    run(pytester, "t.yaml").stdout.fnmatch_lines(
        ["*t.yaml:3: gates replaces the gates of *base.yaml:7*"]
    )


def test_gates_in_the_metadata_of_an_eval_are_judged(pytester):
    (pytester.path / "t.yaml").write_text(
        f"{EVAL}metadata: {{gates: [exact >= 0.9]}}\n"
    )
    assert run(pytester, "t.yaml").ret == 1


@pytest.mark.parametrize("selection", ["--deselect=t.yaml::t[b]", "-knot b"])
def test_the_release_profile_fails_if_a_gate_is_skipped(pytester, selection):
    (pytester.path / "t.yaml").write_text(f"{EVAL}gates: [exact >= 0.1]\n")
    assert run(pytester, "t.yaml", selection).ret == 0
    result = run(pytester, "t.yaml", selection, "--evals-profile=release")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["evals: 1 of 1 gate was not judged; --evals-pro*"])


@pytest.mark.parametrize(
    "conftest",
    [
        "def pytest_collection_modifyitems(items):\n"
        "    items[:] = [one for one in items if '::exact' not in one.nodeid]\n",
        "import pytest\n@pytest.fixture(scope='session')\n"
        "def eval_model():\n    pytest.skip('no model here')\n",
        "import pytest\n@pytest.fixture(scope='session')\n"
        "def eval_model():\n    pytest.exit('bye', returncode=0)\n",
    ],
)
def test_a_session_whose_gates_are_not_judged_at_all_fails(pytester, conftest):
    (pytester.path / "t.yaml").write_text(f"{EVAL}gates: [exact >= 0.1]\n")
    pytester.makeconftest(conftest)
    # pytest.exit() needs a process whose start pytest has recorded.
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", ECHO, "t.yaml")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["evals: no gate was judged, of 1"])


def test_the_table_shows_that_a_gate_was_expected_to_fail(pytester):
    pytester.makepyfile(
        test_it="""
        import pytest, pytest_evals as ev
        @pytest.mark.xfail(reason="known")
        @ev.eval(score=[ev.exact()], gates=["exact >= 0.9"])
        def bot():
            yield ev.case("x", target="y")
        """
    )
    result = run(pytester, "test_it.py")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["bot *FAILED (xfail)"])


@pytest.fixture
def gated(pytester):
    """A failing gate in the folder ``shared``, next to its eval."""
    shared, evals = pytester.mkdir("shared"), pytester.mkdir("evals")
    (shared / "quiz.yaml").write_text(EVAL)
    (shared / "gates.yaml").write_text("gates: [quiz/exact >= 1]\n")
    return shared, evals


@pytest.mark.parametrize("target", ["file", "folder", "file in a folder"])
def test_gates_next_to_the_target_of_a_link_are_judged(pytester, gated, target):
    shared, evals = gated
    if target == "folder":
        (shared / "gates.yaml").rename(pytester.path / "gates.yaml")
        evals = pytester.mkdir("rest")
        (evals / "link").symlink_to(shared)
    elif target == "file":
        (evals / "quiz.yaml").symlink_to(shared / "quiz.yaml")
    else:
        (evals / "deep").mkdir()
        (evals / "deep" / "quiz.yaml").symlink_to("../../shared/quiz.yaml")
    result = run(pytester, str(evals))
    assert result.ret == 1
    result.stdout.fnmatch_lines(["FAILED *quiz::exact - exact 0.500 is not >= 1*"])


def test_a_folder_called_gates_yaml_is_an_error(pytester, gated):
    (gated[0] / "gates.yaml").unlink()
    (gated[0] / "gates.yaml").mkdir()
    result = run(pytester, "shared")
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines(["shared/gates.yaml: this is a folder, not a file *"])


@pytest.mark.parametrize(
    "name",
    [
        *("gates.json", "gates.toml", "gates.yaml.txt", "gates.yaml~", "gates.yml.bak"),
        *("Gates.yaml", "GATES.YML", "gates (1).yaml", "my_gates.conf", "gate.json"),
    ],
)
def test_a_file_of_gates_with_another_name_is_a_warning(pytester, gated, name):
    gates = gated[0] / "gates.yaml"
    text = 'gates = ["quiz/exact >= 1"]' if name.endswith("toml") else gates.read_text()
    (gated[0] / name).write_text(text)
    gates.unlink()
    result = run(pytester, "shared", "-Wdefault::pytest.PytestCollectionWarning")
    assert result.ret == 0
    result.stdout.fnmatch_lines([f"*{name}:1: looks like a gates file, but only *"])


def test_a_copy_that_an_editor_makes_of_a_gates_file_is_not_reported(pytester, gated):
    for name in ("gates.yaml~", "gates.yaml.bak"):
        (gated[0] / name).write_bytes((gated[0] / "gates.yaml").read_bytes())
    assert run(pytester, "shared", "-Werror").ret == 1


MODULE = """\
import pytest_evals as ev

@ev.eval(gates=["exact >= 1"])
def bot():
    yield ev.case("one", target="two")
"""


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        (MODULE + MODULE, 3, "the eval 'bot' is replaced by the one at test_b.py:8, *"),
        (MODULE + "bot = None\n", 3, "no name of the module refers to the eval 'bot'*"),
        (
            MODULE.replace("@", "for n in 1, 2:\n  @").replace("\ndef", "\n  def"),
            4,
            "the eval 'bot' is replaced by the one at test_b.py:4, *",
        ),
        (
            "import pytest_evals as ev\n"
            "bot = ev.eval(lambda: [], gates=['exact >= 1'])\n" * 2,
            2,
            "no name of the module refers to the eval '<lambda>'*",
        ),
        (
            "import pytest_evals as ev\ndef test_it():\n"
            "  @ev.eval(gates=['exact >= 1'])\n  def bot():\n    yield 1\n"
            "  @bot.score\n  def nice(answer):\n    return 1\n",
            4,
            "the eval 'bot' is defined in the function 'test_it' at test_b.py:2, *",
        ),
    ],
)
def test_an_eval_that_its_module_loses_is_an_error(pytester, text, line, what):
    text = text.replace("def bot():\n    yield ev", "def bot():\n      yield ev")
    (pytester.path / "test_b.py").write_text(text)
    result = pytester.runpytest_subprocess(ECHO, "-W", "ignore")
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines([f"test_b.py:{line}: {what}"])


def test_evals_of_functions_that_return_or_use_them_are_no_errors(pytester):
    (pytester.path / "test_b.py").write_text(
        "import pytest_evals as ev\n"
        "def made(n):\n"
        "    @ev.eval(name=f'bot{n}', gates=['exact >= 1'])\n"
        "    def bot():\n"
        "        yield ev.case('one', target='one')\n"
        "    return bot\n"
        "one, two = made(1), made(2)\n"
        "def test_it():\n"
        "    assert made(3).name == 'bot3'\n"
    )
    result = pytester.runpytest_subprocess(ECHO)
    assert result.ret == 0
    assert result.parseoutcomes() == {"passed": 5}


def test_an_eval_in_a_list_is_a_warning(pytester):
    (pytester.path / "test_b.py").write_text(
        "import pytest_evals as ev\nbots = [ev.eval(lambda: [], name='bot')]\n"
    )
    result = pytester.runpytest_subprocess(ECHO)
    result.stdout.fnmatch_lines(["*test_b.py:2: the eval 'bot' is not a name of its *"])
