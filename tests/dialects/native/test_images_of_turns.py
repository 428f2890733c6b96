"""Images and text files in the turns of conversations, and images that judges see."""

from __future__ import annotations

import json
from base64 import b64encode
from pathlib import Path

import pytest
from PIL import Image

import pytest_evals as ev
from pytest_evals import Response, TaskFileError, evaluate
from pytest_evals.models.chat_messages import chat_messages
from pytest_evals.reports.html.baseline_documents import no_baseline
from pytest_evals.reports.html.documents import documents_of
from pytest_evals.reports.html.prompt import FewshotExamples
from pytest_evals.reports.html.thumbnails import Thumbnails
from pytest_evals.store.history import earlier_runs

EVAL = """\
system: Look.
rows:
  - id: shelf
    turns:
      - {user: [{type: image, path: a.png}, "Which {{colour}}?"]}
      - Are you sure?
      - user: [{type: text, path: notes.txt}, {type: image, path: b.png, detail: low}]
        checks: [{contains: "3"}]
score:
  - checks
  - judge: {rubric: "{{transcript}}", images: true}
"""


class Seeing:
    """Answers with the number of images; keeps the messages as servers get them."""

    name = "seeing"
    fingerprint = {"seeing": 1}  # noqa: RUF012

    def __init__(self, text: str = "") -> None:
        self.text, self.seen = text, []

    def answer(self, requests):
        for position, one in enumerate(requests):
            messages = chat_messages(one.prompt, dict(one.options))
            self.seen.append(messages)
            n = json.dumps(messages).count('image_url": {')
            yield position, Response(text=self.text or f"{n} images, {len(messages)}")


def judge() -> Seeing:
    return Seeing('{"reason": "Yes.", "pass": true}')


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, colour in (("a", "red"), ("b", "blue")):
        Image.new("RGB", (8, 8), colour).save(tmp_path / f"{name}.png")
    (tmp_path / "notes.txt").write_text("Notes.")
    return tmp_path


def run(folder: Path, text: str, *models, **more):
    (folder / "shelf.yaml").write_text(text)
    store = folder / ".evals"
    return evaluate(folder / "shelf.yaml", *models, folder=store, **more)


def parts(message) -> list[str]:
    """The kinds of a message's parts, and its texts."""
    content = message["content"]
    listed = [{"text": content}] if isinstance(content, str) else content
    return [one.get("text", "IMAGE") for one in listed]


def test_images_of_turns_stay_at_their_messages(folder):
    text = EVAL.replace("{{colour}}", "colour")
    model, grader = Seeing(), judge()
    run(folder, text, model, judge=grader)
    first, second, third = model.seen
    assert [*map(parts, first)] == [["Look."], ["IMAGE", "Which colour?"]]
    assert [*map(parts, second)][1:] == [
        ["IMAGE", "Which colour?"],
        ["1 images, 2"],
        ["Are you sure?"],
    ]
    assert parts(third[1]) == ["IMAGE", "Which colour?"]
    assert parts(third[-1]) == ["Notes.", "IMAGE"]
    assert third[-1]["content"][1]["image_url"]["detail"] == "low"


def test_a_judge_gets_the_images_of_a_conversation_after_it(folder):
    grader = judge()
    result = run(folder, EVAL.replace("{{colour}}", "colour"), Seeing(), judge=grader)
    (record,) = result.tasks[0].records
    assert [one.value for one in record.scores] == [0.0, 1.0]
    ((_, message),) = grader.seen
    before, *images, after = parts(message)
    assert before.startswith("<prompt-")
    assert before.endswith("user: Notes.\nuser shows b.png")
    assert "user: Which colour?\nuser shows a.png\n" in before
    assert images == ["IMAGE", "IMAGE"]
    assert after.startswith("\n</prompt-")


def test_a_judge_gets_the_images_of_a_prompt_at_their_places(folder):
    text = """\
prompt:
  - {role: user, content: ["Look: ", {type: image, path: a.png}, "\\nAnd?"]}
rows: [{id: a}]
score: {judge: {rubric: "Right?", images: true}}
"""
    grader = judge()
    run(folder, text, Seeing(), judge=grader)
    ((_, message),) = grader.seen
    before, image, after = parts(message)
    assert before.endswith(">\nuser: Look: ")
    assert (image, after.partition("\n</")[0]) == ("IMAGE", "\nAnd?")


@pytest.mark.slow
def test_the_page_shows_them_in_the_transcript(folder):
    text = EVAL.replace("{{colour}}", "colour")
    run(folder, text, Seeing(), judge=judge())
    (stored,) = earlier_runs(folder / ".evals")
    shots, images = FewshotExamples(0, ""), Thumbnails([folder])
    (found,) = documents_of(stored, "shelf", shots, no_baseline, (), images)
    (messages,) = (one for name, one in found.whole["returned"] if name == "messages")
    shown = [
        (image["name"], one["role"]) for one in messages for image in one["images"]
    ]
    assert shown == [("a.png", "user"), ("b.png", "user")]
    for one in (messages[1], messages[5]):
        assert one["images"][0]["src"].startswith("data:image/")
    assert found.question == "Notes."


def test_without_images_a_judge_gets_text(folder):
    text = EVAL.replace("{{colour}}", "colour").replace(", images: true", "")
    grader = judge()
    run(folder, text, Seeing(), judge=grader)
    assert isinstance(grader.seen[0][1]["content"], str)


def test_a_changed_image_of_a_turn_is_asked_again_from_that_turn(folder):
    text = EVAL.replace("{{colour}}", "colour")
    run(folder, text, Seeing(), judge=judge())
    Image.new("RGB", (8, 8), "green").save(folder / "b.png")
    again, grader = Seeing(), judge()
    run(folder, text, again, judge=grader)
    assert [len(one) for one in again.seen] == [6]
    assert len(grader.seen) == 1


def test_templates_of_turns_have_images(folder):
    (folder / "rows.jsonl").write_text('{"id": "x", "picture": "b", "word": "hue"}')
    text = (
        "turns:\n"
        '  - user: [{type: image, path: "{{picture}}.png"}, "Which {{word}}?"]\n'
        "dataset: rows.jsonl\nscore: {contains: 1 images}\n"
    )
    model = Seeing()
    run(folder, text, model)
    assert parts(model.seen[0][0]) == ["IMAGE", "Which hue?"]


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("path: b.png", "path: c.png", "shelf.yaml:3: file not found: 'c.png'"),
        ("path: b.png", "path: ../b.png", "is outside of the suite's folder"),
        ("type: image, path: b.png", "type: imag, path: b.png", "turn 3: unknown type"),
        ("images: true", "images: 1", "judge: images is 1, not true or false"),
    ],
)
def test_faults_are_found_before_the_run(folder, old, new, why):
    model = Seeing()
    with pytest.raises(TaskFileError) as error:
        run(folder, EVAL.replace(old, new), model, judge=judge())
    assert why in str(error.value)
    assert not model.seen


def test_cases_in_python_have_images_in_turns(folder):
    url = "data:image/png;base64," + b64encode((folder / "a.png").read_bytes()).decode()
    shown = [{"type": "image_url", "image_url": {"url": url}}, "What?"]

    @ev.eval(score=[ev.contains("1 images")])
    def shelf():
        yield ev.case(turns=["Hello.", {"user": shown}], id="a")

    model = Seeing()
    (record,) = evaluate(shelf, model).tasks[0].records
    assert [*map(parts, model.seen[1])][-1] == ["IMAGE", "What?"]
    assert record.scores[0].correct
