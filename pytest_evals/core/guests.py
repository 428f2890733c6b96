"""The names of this distribution's guests: parts that are registered as a user's plugin
registers its own. The rest of the package imports none of them; each is imported when a
file, a model's spec or a metric's name first needs it."""

from __future__ import annotations

DIALECTS = {
    "latticeflow": "pytest_evals.guests.latticeflow.loader:load_tasks",
    "lighteval": "pytest_evals.guests.lighteval.tasks:load_tasks",
}
MODEL_KINDS = {"ray": "pytest_evals.guests.ray.kind:RAY"}
METRIC_FAMILIES = {
    "lighteval": "pytest_evals.guests.lighteval.metrics.catalogue:lighteval_metric"
}
