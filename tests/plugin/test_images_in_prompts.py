"""Images and text files in the prompts of cases."""

from __future__ import annotations

import json
from base64 import b64decode
from hashlib import sha256
from io import BytesIO
from pathlib import Path

import pytest
from PIL import Image

from pytest_evals import evaluate

EVAL = """\
prompt:
  - role: user
    content:
      - {type: text, text: "Notes:"}
      - {type: text, path: notes.txt}
      - {type: image, path: "{{picture}}", detail: low}
      - {type: text, text: "Which {{word}}?"}
system: "Look."
rows:
  - {id: red, picture: pics/red.png, word: colour, target: red}
  - {id: blue, picture: pics/blue.jpg, word: shade, target: red}
score: contains
"""
APP = """
import json, pathlib

def respond(messages):
    with open("calls.jsonl", "a") as log:
        log.write(json.dumps(messages) + "\\n")
    return "red"

respond.version = "1"
"""


@pytest.fixture
def shelf(pytester: pytest.Pytester) -> pytest.Pytester:
    """An eval with two images, and an application that logs what it gets."""
    pics = pytester.mkdir("evals") / "pics"
    pics.mkdir()
    Image.new("RGB", (32, 20), "red").save(pics / "red.png")
    Image.new("RGB", (30, 40), "blue").save(pics / "blue.jpg")
    Path("evals/notes.txt").write_text("Shelf A.")
    Path("evals/shelf.yaml").write_text(EVAL)
    pytester.makepyfile(app=APP)
    return pytester


def run(shelf: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    return shelf.runpytest("evals", "--model=python:app:respond", *arguments)


def calls() -> list[list[dict]]:
    return [*map(json.loads, Path("calls.jsonl").read_text().splitlines())]


def test_parts_reach_applications_in_their_order(shelf):
    run(shelf).assert_outcomes(passed=2)
    found = {json.dumps(one[-1]["content"][-1]): one for one in calls()}
    system, user = found['{"type": "text", "text": "Which colour?"}']
    assert system == {"role": "system", "content": "Look."}
    notes, image, _ = user["content"]
    assert notes == {"type": "text", "text": "Notes:\nShelf A."}
    assert image["image_url"]["detail"] == "low"
    head, data = image["image_url"]["url"].split(",")
    assert head == "data:image/png;base64"
    assert b64decode(data) == Path("evals/pics/red.png").read_bytes()


@pytest.mark.slow
def test_responses_belong_to_the_content_of_an_image(shelf):
    run(shelf)
    Path("evals/pics/red.png").rename("evals/pics/other.png")
    text = EVAL.replace("red.png", "other.png")
    Path("evals/shelf.yaml").write_text(text)
    run(shelf)
    assert len(calls()) == 2  # another name, the same request
    Image.new("RGB", (32, 20), "pink").save("evals/pics/other.png")
    run(shelf)
    assert len(calls()) == 3


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["", "-n 2"])
def test_samples_have_hash_and_path(shelf, workers):
    run(shelf, *workers)
    (path,) = shelf.path.glob(".evals/runs/*/samples_shelf.jsonl")
    text = path.read_text()
    first = json.loads(text.splitlines()[0])
    settings = first["arguments"]["gen_args_0"]["arg_1"]
    raw = Path("evals/pics/red.png").read_bytes()
    assert settings["placed_images"] == [
        {
            "message": 1,
            "at": len("Notes:\nShelf A."),
            "sha256": sha256(raw).hexdigest(),
            "detail": "low",
            "path": "evals/pics/red.png",
        }
    ]
    assert "base64" not in text and str(shelf.path) not in text


@pytest.mark.slow
def test_a_baseline_with_another_image_has_another_prompt(shelf):
    run(shelf, "--evals-save-baseline=v1")
    Image.new("RGB", (32, 20), "pink").save("evals/pics/red.png")
    found = run(shelf, "--evals-compare=v1")
    found.stdout.fnmatch_lines(["*the prompt has changed: 1 document (red)*"])


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ("missing.png", "file not found: 'pics/missing.png'*"),
        (
            "../../../secret.png",
            "'pics/../../../secret.png' is outside of the suite's*",
        ),
        ("link.png", "'pics/link.png' is outside of the suite's folder*"),
        ("text.png", "'text.png' is not a PNG, JPEG, GIF or WebP file"),
    ],
)
def test_files_are_checked_at_collection(shelf, tmp_path_factory, change, why):
    secret = tmp_path_factory.mktemp("outside") / "secret.png"
    Image.new("RGB", (1, 1)).save(secret)
    Path("evals/pics/link.png").symlink_to(secret)
    Path("evals/pics/text.png").write_text("secret")
    text = EVAL.replace("blue.jpg", change)
    Path("evals/shelf.yaml").write_text(text)
    found = run(shelf)
    found.stdout.fnmatch_lines([f"evals/shelf.yaml:11: {why}"])
    assert found.ret == pytest.ExitCode.INTERRUPTED
    assert not Path("calls.jsonl").exists()


def test_rows_of_a_dataset_name_files_next_to_it(shelf):
    data = shelf.mkdir("evals/data")
    Path("evals/pics/red.png").rename(data / "red.png")
    rows = [{"picture": "red.png", "target": "red", "word": "a"}] * 2
    rows[1] = {**rows[1], "picture": "lost.png"}
    Path("evals/data/rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    text = EVAL.partition("rows:")[0] + "dataset: data/rows.jsonl\n"
    Path("evals/shelf.yaml").write_text(text)
    run(shelf).stdout.fnmatch_lines(
        ["evals/data/rows.jsonl:2: file not found: 'lost.png'*"]
    )
    Image.new("RGB", (2, 2)).save(data / "lost.png")
    run(shelf).assert_outcomes(passed=2)


def test_unknown_parts_are_named(shelf):
    text = EVAL.replace("type: image", "type: picture").replace("detail: low", "x: 1")
    Path("evals/shelf.yaml").write_text(text)
    run(shelf).stdout.fnmatch_lines(
        ["evals/shelf.yaml:6: prompt: unknown type of a part 'picture'*"]
    )


def test_a_model_that_reads_text_is_refused_before_it_is_loaded(shelf):
    shelf.mkdir("texts").joinpath("config.json").write_text("{}")
    found = shelf.runpytest("evals", "--model=hf:texts")
    assert found.ret == pytest.ExitCode.USAGE_ERROR
    found.stderr.fnmatch_lines(["*hf: model reads texts * and a task shows images*"])


def test_cases_in_python_have_images(shelf):
    shelf.makepyfile(
        test_shelf="""
        import pytest_evals as ev

        @ev.eval(score=ev.contains())
        def shelf():
            parts = [{"type": "image", "path": "evals/pics/red.png"}, "Which?"]
            yield ev.case([{"role": "user", "content": parts}], target="red")
        """
    )
    found = shelf.runpytest("test_shelf.py", "--model=python:app:respond")
    found.assert_outcomes(passed=1)
    assert calls()[0][0]["content"][1] == {"type": "text", "text": "Which?"}


def test_evaluate_takes_images_and_refuses_addresses(shelf):
    image = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}
    rows = [{"prompt": [{"role": "user", "content": [image]}], "target": "red"}]
    with pytest.raises(Exception, match=r"has the address https://example\.org"):
        evaluate(rows, model="python:app:respond")


def test_the_page_embeds_small_images(shelf):
    run(shelf, "--evals-html=report.html")
    from pytest_evals.reports.html.baseline_documents import no_baseline
    from pytest_evals.reports.html.documents import documents_of
    from pytest_evals.reports.html.prompt import FewshotExamples
    from pytest_evals.reports.html.thumbnails import Thumbnails
    from pytest_evals.store.history import earlier_runs

    (stored,) = earlier_runs(shelf.path / ".evals")
    shots = FewshotExamples(0, "")

    def images() -> list[dict]:
        pages = Thumbnails([shelf.path])
        found = documents_of(stored, "shelf", shots, no_baseline, (), pages)
        return [one.whole["prompts"][0][1]["images"][0] for one in found]

    red, blue = images()
    assert red["name"] == "evals/pics/red.png"
    assert red["src"].startswith("data:image/jpeg;base64,")
    Image.new("RGB", (32, 20), "pink").save("evals/pics/red.png")
    assert [bool(one["src"]) for one in images()] == [False, True]
    assert blue["src"] == images()[1]["src"]


LM_EVAL = """
task: rows
custom_dataset: !function rows.rows
output_type: generate_until
test_split: test
doc_to_image: [picture]
doc_to_text: "<image>Which colour?"
doc_to_target: "{{colour}}"
metric_list: [{metric: exact_match}]
"""
LIGHTEVAL = """
from io import BytesIO

from lighteval.metrics.metrics import Metrics
from lighteval.tasks.lighteval_task import LightevalTaskConfig
from lighteval.tasks.requests import Doc
from PIL import Image


def prompt(line, task_name=None):
    image = Image.new("RGB", (640, 400), line["colour"])
    return Doc(task_name=task_name, query="Which colour?", choices=[line["colour"]],
               gold_index=0, images=[image])


TASKS_TABLE = [LightevalTaskConfig(name="rows", prompt_function=prompt,
    hf_repo="./data", hf_subset="default", metrics=[Metrics.exact_match],
    evaluation_splits=["train"], hf_avail_splits=["train"], generation_size=20)]
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "dialect", ["lm_eval", pytest.param("lighteval", marks=pytest.mark.guests)]
)
@pytest.mark.parametrize("is_switched_on", [True, False])
def test_the_page_embeds_small_images_of_rows(shelf, dialect, is_switched_on):
    suite = "rows.yaml" if dialect == "lm_eval" else "eval_rows.py"
    Path(suite).write_text(LM_EVAL if dialect == "lm_eval" else LIGHTEVAL)
    Path("rows.py").write_text(
        "from PIL import Image\n"
        "def rows(**_):\n"
        "    made = [(c, Image.new('RGB', (640, 400), c)) for c in ('red', 'blue')]\n"
        "    return {'test': [{'colour': c, 'picture': i} for c, i in made]}\n"
    )
    Path("data").mkdir()
    Path("data/train.jsonl").write_text('{"colour": "red"}\n{"colour": "blue"}\n')
    page = ["--evals-html=report.html"] if is_switched_on else []
    found = shelf.runpytest(suite, "--model=python:app:respond", *page)
    assert found.parseoutcomes().get("errors") is None
    (samples,) = Path(".evals").glob("runs/*/samples_*.jsonl")
    rows = [json.loads(line) for line in samples.read_text().splitlines()]
    if not is_switched_on:
        assert not any("thumbnails" in row for row in rows)
        return
    for number, row in enumerate(rows):
        (url,) = row["thumbnails"].values()
        raw = b64decode(url.removeprefix("data:image/jpeg;base64,"))
        small = Image.open(BytesIO(raw))
        assert small.size == (240, 150)
        colour = {"red": (254, 0, 0), "blue": (0, 0, 254)}[row["target"]]
        assert small.getpixel((9, 9)) == pytest.approx(colour, abs=3)
        assert url in _images_of_page(shelf, number)


def _images_of_page(shelf, number):
    from pytest_evals.reports.html.baseline_documents import no_baseline
    from pytest_evals.reports.html.documents import documents_of
    from pytest_evals.reports.html.prompt import FewshotExamples
    from pytest_evals.store.history import earlier_runs

    (stored,) = earlier_runs(shelf.path / ".evals")
    found = [*documents_of(stored, "rows", FewshotExamples(0, ""), no_baseline)]
    parts = found[number].whole["prompts"][0]
    return [one["src"] for part in parts for one in part.get("images", ())]
