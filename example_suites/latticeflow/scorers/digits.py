"""Score the distance of an answer from the sum."""

from typing import Any


def compute_scores(sample: dict[str, Any], solver_output: Any) -> dict[str, Any]:
    """Return whether the answer contains a number, and its distance."""
    said = solver_output.trace.get_last_assistant_text().strip()
    if not said.isdigit():
        return {"is_number": False}
    return {"is_number": True, "distance": abs(int(said) - sample["answer"])}
