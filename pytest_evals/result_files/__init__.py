"""Results that were made elsewhere, read as runs.

Each reader returns a :class:`~pytest_evals.result_files.documents.ForeignRun`: rows
like those of our samples files, one for each document and filter, and facts of the run.
Everything that reads a stored run reads these too.

| files                                  | module           |
|----------------------------------------|------------------|
| JSON Lines, JSON arrays, CSV, Parquet  | ``tables``       |
| lm-eval: ``results_*``, ``samples_*``  | ``lm_eval``      |
| lighteval: results and details         | ``lighteval``    |
| inspect: ``.json`` and ``.eval`` logs  | ``inspect_logs`` |
| Harbor's jobs, SWE-bench's reports     | ``agent_trials`` |

``find`` detects the program, ``baselines`` finds a baseline by its name or path, and
``documents`` makes rows of what they have in common.
"""
