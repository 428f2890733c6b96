"""Record the results of ``code_eval`` of the library ``evaluate`` for made programs.

Run by hand: ``python tests/parity/record_code_eval.py EXECUTE`` with the path of the
metric's ``execute.py`` (huggingface/evaluate, ``metrics/code_eval``). It runs the
programs of ``code_samples`` with your rights.
"""

import importlib.util
import json
import sys
from pathlib import Path

from code_samples import samples

HERE = Path(__file__).parent


def main() -> None:
    spec = importlib.util.spec_from_file_location("execute", sys.argv[1])
    execute = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(execute)
    results = [
        execute.check_correctness(f"{code}\n{tests}", 3.0, 0, 0)["result"]
        for code, tests in samples()
    ]
    path = HERE / "code_eval.json"
    path.write_text(json.dumps(results, indent=0) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
