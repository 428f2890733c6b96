"""Functions that the task files here name."""


def process_docs(docs):
    return docs.map(lambda row: {**row, "text": f"Question: {row['q']}\nAnswer:"})


def text(row):
    return f"Q: {row['q']}"


def choices(row):
    return [f"{row['q']} {choice}" for choice in row["choices"]]


def samples():
    return [{"q": "S0?", "choices": ["a", "b", "cc"], "label": 2, "ans": "SA0"}]


def score(row, results):
    return {"right": float(results[0].strip() == row["ans"]), "length": len(results[0])}


def overlap(references, predictions):
    return float(references[0] in predictions[0])


def make(**arguments):
    rows = [{"q": f"made {i}", "ans": str(arguments["size"])} for i in range(3)]
    return {"test": rows}


BROKEN = None
