"""``--evals-write-out``: prompts on the terminal, before the documents run."""

from __future__ import annotations

QUIZ = [
    "quiz[[]q0]: 1 request",
    "  prompt:",
    "    │quiz 0?│",
    "  answer: until '*n*n'; at most 256 tokens",
    "quiz[[]q1]: 1 request",
]


def test_write_out_shows_prompts_and_runs(suite):
    done = suite.run("evals", "--evals-write-out=2")
    assert done.ret == 0
    done.assert_outcomes(passed=10)
    done.stdout.fnmatch_lines(QUIZ)
    done.stdout.no_fnmatch_line("quiz[[]q2]*")
    assert done.stdout.str().index("quiz[q0]") < done.stdout.str().index("docs")


def test_write_out_without_a_model_only_validates(suite):
    done = suite.run("evals", "--evals-write-out=2", model=None)
    assert done.ret == 0
    done.stdout.fnmatch_lines([*QUIZ, "1 checked: 1 ok, *; no model was used"])


def test_write_out_shows_the_selected_documents(suite):
    done = suite.run("evals", "--evals-write-out=1", "-k", "q7")
    done.stdout.fnmatch_lines(["quiz[[]q7]: 1 request"])
    done.stdout.no_fnmatch_line("quiz[[]q0]*")


def test_nothing_runs_under_collect_only(suite):
    done = suite.run("evals", "--evals-write-out=1", "--collect-only", "-q")
    assert done.ret == 0
    done.stdout.fnmatch_lines(QUIZ[:1])
    assert not (suite.pytester.path / ".evals").exists()


def test_a_tokenizer_shows_tokens_without_the_weights(suite, tiny_model_path, tmp_path):
    for file in tiny_model_path.iterdir():
        if file.suffix != ".safetensors":
            (tmp_path / file.name).write_bytes(file.read_bytes())
    given = ("--evals-validate", "--evals-write-out=1", "evals")
    done = suite.run(*given, model=f"hf:{tmp_path}")
    assert done.ret == 0
    done.stdout.fnmatch_lines(["  prompt (* tokens):", "    │*│?│"])


def test_without_a_loadable_tokenizer_prompts_are_shown_as_text(suite, tmp_path):
    (tmp_path / "config.json").write_text("{}")
    given = ("--evals-validate", "--evals-write-out=1", "evals")
    done = suite.run(*given, model=f"hf:{tmp_path}")
    done.stdout.fnmatch_lines(
        ["evals: prompts without tokens: cannot load the model *", *QUIZ[:3]]
    )


def test_a_document_that_cannot_be_rendered_shows_the_reason(suite):
    text = "{{ question if question != 'quiz 1?' else question.no.such }}"
    suite.task("quiz", doc_to_text=text)
    done = suite.run("evals", "--evals-write-out=2", model=None)
    done.stdout.fnmatch_lines(["quiz[[]q1]: 0 requests", "  error: *has no attribute*"])


def test_control_characters_of_a_dataset_are_escaped(suite):
    suite.task("quiz", doc_to_text="\x1b[2J{{question}}\nnow")
    done = suite.run("evals", "--evals-write-out=1", model=None)
    done.stdout.fnmatch_lines(["    │*x1b[[]2Jquiz 0?⏎", "    now│"])


def test_invalid_numbers_and_workers_are_usage_errors(suite):
    for bad in ("0", "-1", "some"):
        assert suite.run("evals", f"--evals-write-out={bad}").ret == 4
    done = suite.run("evals", "--evals-write-out=1", "-n2")
    assert done.ret == 4
    done.stderr.fnmatch_lines(["*--evals-write-out shows prompts without workers: -n0"])
