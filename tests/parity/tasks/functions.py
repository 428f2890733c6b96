"""Functions that the parity tasks name with ``!function``."""

from __future__ import annotations

import math


def question(row):
    return f"Is {row['a']} more than {row['b']}?\nSay:"


def answers(row):
    return ["no", "yes", "maybe"] if row["a"] % 2 else ["No.", "Yes.", "It may be so."]


def position(row):
    return row["more"]


def golds(row):
    return [row["ending"], row["ending"].upper()]


def only_odd(rows):
    return rows.filter(lambda row: row["a"] % 2 == 1).map(
        lambda row: {"total": row["a"] + row["b"]}
    )


def with_digits(rows):
    return rows.map(lambda row: {"digits": "1234567890", "start": row["answer"][:1]})


def shown(rows):
    return rows.map(lambda row: {"text": row["text"].rstrip() + "\n"})


def judge_reversal(row, results):
    text = results[0].strip()
    right = row["answers"][0]
    overlap = sum(a == b for a, b in zip(text, right, strict=False))
    return {
        "exact": float(text == right),
        "overlap": overlap / len(right),
        "lengths": (len(text), len(right)),
        "middle": float(len(text)),
        "sometimes": math.nan if row["letters"].startswith("a") else float(overlap),
        "undeclared": int(text[:1] == right[:1]),
    }


def length_ratio(pairs):
    return sum(a for a, _ in pairs) / sum(b for _, b in pairs)


def f1_of_pairs(pairs):
    both = sum(gold == 1 and chosen == 1 for gold, chosen in pairs)
    return 2 * both / sum(gold + chosen for gold, chosen in pairs)


def starts_like(references, predictions, **arguments):
    n = arguments.get("n", 1)
    return float(predictions[0].strip()[:n] == references[0].strip()[:n])


def mean_gap(values):
    return sum(values) / len(values)


def judge_choice(row, results):
    scores = [logprob for logprob, _ in results]
    best = scores.index(max(scores))
    gap = scores[row["label"]] - max(
        s for i, s in enumerate(scores) if i != row["label"]
    )
    return {"picked": float(best == row["label"]), "gap": gap}


def only_large(rows):
    return rows.filter(lambda row: row["a"] > 10)


def shots():
    return [{"a": i, "b": i + 1, "answer": f"{2 * i + 1}"} for i in range(6)]


def as_letters(answers, rows):
    return [
        [_as_letter(row) for _ in said] for said, row in zip(answers, rows, strict=True)
    ]


def _as_letter(row):
    i = row["a"]
    if i % 4:
        return f"The answer is {'BC'[i % 2]} ({row['choices'][i % 3]}), or: A"
    return f"I say {row['choices'][1].upper()}"


def as_tags(answers, rows):
    return [
        [f"[('{text}', 'NOUN'), ('{row['answer']}', 'X')]" if row["a"] % 2 else text]
        for [text], row in zip(answers, rows, strict=True)
    ]


def as_spans(answers, rows):
    return [
        [f"Person: {text.split()}, Ann $$ location: none\nDate: {row['a']}"]
        for [text], row in zip(answers, rows, strict=True)
    ]


def judge_spans(row, results):
    found = results[0]
    return {"n": len(found), "pair": (len(found), row["a"])}


def share(pairs):
    return sum(a for a, _ in pairs) / sum(b for _, b in pairs)


def made(n=4, offset=0, **_):
    import datasets

    def split(start):
        return datasets.Dataset.from_list(
            [
                {
                    "kind": "Small" if i < 10 else "Large",
                    "number": i,
                    "options": [" even", " odd", " prime"][: 2 + i % 2],
                    "right": i % 2,
                }
                for i in range(start, start + n)
            ]
        )

    return {"first": split(offset), "second": split(offset + 20)}


def spaced(row):
    return row["sentence"].replace(" ", "  ")


def judge_text(row, results):
    (logprob,) = results
    words = len(row["sentence"].split())
    n_bytes = len(row["sentence"].encode())
    return {
        "word_perplexity": (logprob, words),
        "byte_perplexity": (logprob, n_bytes),
        "bits_per_byte": (logprob, n_bytes),
    }


def lengths(references, predictions):
    return {"lengths": len(predictions[0]), "wanted": len(references[0])}


def ends(references, predictions):
    same = predictions[0][-1:] == references[0][-1:]
    return {"ends": float(same), "asked": len(references[0]) / 3}


def judge_free(row, results):
    return {"longer": float(len(results[0]) > len(row["opts"][0])), "n": row["gold"][0]}
