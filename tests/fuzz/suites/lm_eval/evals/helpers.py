"""Functions that the task files name."""


def clean(dataset):
    """Rows without white space around the question."""

    def strip(row):
        return {**row, "question": row["question"].strip()}

    return dataset.map(strip)


def long(predictions, references):
    """The length of an answer."""
    return float(len(predictions[0]) + 0 * len(references[0]))
