"""Prints the JSON Schema of lm-eval's task and group files with gates, for editors.

``tests/json_schemas.py`` generates it.
"""

import sys
from pathlib import Path

if __name__ == "__main__":
    path = Path(__file__).with_name("task.schema.json")
    sys.stdout.write(path.read_text(encoding="utf-8"))
