"""Record which values lighteval 0.13.0 extracts from answers in thirteen languages.

Run by hand, with a Python that has lighteval 0.13.0 and none of this project's
libraries::

    python tests/parity/record_languages.py FILE.jsonl

The file is ``tests/parity/vectors/lighteval_languages.jsonl``. Each line is an answer:
its language, the targets of extraction, the choices, the index of the correct one, and
lighteval's extracted values and score. Where lighteval lacks the word for "and" of a
language, it fails for LaTeX, and without that for "answer" it always fails, and asks
for the word; ``languages.json`` contains it.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from typing import Any

GIVEN = json.loads(
    (Path(__file__).parent / "lighteval_inputs" / "languages.json").read_text("utf-8")
)
"""Words that lighteval lacks, by language: those that this package uses; and sentences
with answers."""

# N stands for a number, X and Y for letters of choices, F and G for formulas; A for the
# word for "answer", and C for a colon.
ALONE = r"(?<![A-Za-zÀ-ÿ])[NFGXY](?![A-Za-zÀ-ÿ])"
SHAPES = {
    "numbers": ["AC N", "AC N.", "A C N", "**AC** N", "A N", "N"],
    "letters": [
        "X",
        "X.",
        "(X)",
        "AC X",
        "A C X",
        "AC (X)",
        "**X**",
        "AC **X**",
        "Y\nX",
    ],
    "latex": ["F", "AC F", "A F.", r"\boxed{N}", r"AC \boxed{N}", "F, G"],
}
NUMBERS = [
    "99",
    "13/28",
    "12",
    "1,000",
    "3.5",
    "-7",
    "2,5",
    "50%",
    "1 234",
    "0.25",
    "8",
]
FORMULAS = [
    r"$\frac{1}{2}$", "$x = 3$", r"\(2\sqrt{3}\)", r"\[7\]", "$1,2$", r"$\frac34$",
    r"$\boxed{5}$",
]  # fmt: skip


def answers() -> Iterator[dict[str, Any]]:
    """All answers, without lighteval's values."""
    from lighteval.tasks.templates.utils.translation_literals import (
        TRANSLATION_LITERALS,
    )
    from lighteval.utils.language import Language

    for name, sentences in GIVEN["sentences"].items():
        words = TRANSLATION_LITERALS[Language[name]]
        numbers, formulas, letters = cycle(NUMBERS), cycle(FORMULAS), cycle(range(4))
        # Every fourth reference is another value.
        right = cycle([True, True, True, False])
        for kind, shapes in SHAPES.items():
            for shape in [*shapes, *sentences[kind]]:
                n, f, x = next(numbers), next(formulas), next(letters)
                text = shape
                if shape in shapes:
                    text = text.replace("A", words.answer).replace("C", words.colon)
                labels = words.indices[:4]
                values = {
                    "N": n,
                    "F": f,
                    "G": "$4$",
                    "X": labels[x],
                    "Y": labels[x - 1],
                }
                text = re.sub(ALONE, lambda found: values[found[0]], text)  # noqa: B023
                if kind == "letters":
                    choices = list(labels)
                    gold = x if next(right) else x - 1
                else:
                    value = {"numbers": n, "latex": f}[kind]
                    value = f"${n}$" if kind == "latex" and "F" not in shape else value
                    value = f"{value}, $4$" if "G" in shape else value
                    choices, gold = [value if next(right) else "$17$"], 0
                yield {
                    "language": Language[name].value,
                    "targets": {
                        "numbers": ["latex", "expr"],
                        "letters": ["NativeLetters"],
                        "latex": ["latex"],
                    }[kind],
                    "choices": choices,
                    "gold": gold % 4,
                    "answer": text,
                }


def recorded(answer: dict[str, Any]) -> dict[str, Any]:
    """An answer with lighteval's values."""
    from lighteval.metrics import dynamic_metrics
    from lighteval.metrics.utils import extractive_match_utils as configs
    from lighteval.models.model_output import ModelResponse
    from lighteval.tasks.requests import Doc
    from lighteval.utils.language import Language

    kinds = {
        "expr": configs.ExprExtractionConfig(),
        "latex": configs.LatexExtractionConfig(),
        "NativeLetters": configs.IndicesExtractionConfig("NativeLetters", True),
    }
    targets = [kinds[name] for name in answer["targets"]]
    language = Language(answer["language"])
    how = dynamic_metrics.MultilingualExtractiveMatchMetric(language, targets, targets)
    doc = Doc(query="", choices=answer["choices"], gold_index=answer["gold"])
    score = how.compute(doc=doc, model_response=ModelResponse(text=[answer["answer"]]))
    assert doc.specific is not None, "lighteval writes the extracted values there"
    return {
        **answer,
        "extracted": doc.specific["extracted_predictions"],
        "score": score,
    }


def main() -> None:
    """Write the file."""
    import huggingface_hub

    # Judges ask the Hub when they are imported.
    huggingface_hub.HfApi.list_models = lambda *args, **more: iter(["a model"])
    from lighteval.tasks.templates.utils import translation_literals
    from lighteval.utils.language import Language

    for name, missing in GIVEN["missing words"].items():
        words = translation_literals.TRANSLATION_LITERALS[Language[name]]
        for key, word in missing.items():
            setattr(words, key, word)
    lines = [json.dumps(recorded(one), ensure_ascii=False) for one in answers()]
    Path(sys.argv[1]).write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
