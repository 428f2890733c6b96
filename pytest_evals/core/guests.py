"""The names of this distribution's guests: parts that are registered as a user's plugin
registers its own. The rest of the package imports none of them; each is imported when a
file, a model's spec or a metric's name first needs it."""

from __future__ import annotations

DIALECTS = {
    "latticeflow": "pytest_evals.dialects.latticeflow.loader:load_tasks",
    "lighteval": "pytest_evals.dialects.lighteval.tasks:load_tasks",
}
MODEL_KINDS = {"ray": "pytest_evals.models.ray.kind:RAY"}
METRIC_FAMILIES = {
    "lighteval": "pytest_evals.scorers.lighteval.metric_entry:lighteval_metric"
}
