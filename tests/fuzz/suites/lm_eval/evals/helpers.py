"""Functions that the task files name."""


def clean(dataset):
    """Rows without white space around the question."""

    def strip(row):
        return {**row, "question": row["question"].strip()}

    return dataset.map(strip)


def long(predictions, references):
    """How long an answer is."""
    return float(len(predictions[0]) + 0 * len(references[0]))
