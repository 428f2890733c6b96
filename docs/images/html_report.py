"""Makes the pictures of ``docs/html_report.md``: the example suites are run with the
bundled model, once as a baseline and once in half precision with a gate that fails, and
a browser takes pictures of the report.

``python docs/images/html_report.py``, in the root of the repository; it needs the extra
``hf``, ``playwright`` and a Chromium.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
MODEL = "hf:example_suites/tiny,device=cpu"
DESK = {"width": 1180, "height": 740}
PICTURES = {
    "gates": ("light", "#/gates"),
    "summary": ("light", "#/summary"),
    "document": ("dark", "#/documents?task=capitals&show=wrong&doc=capitals/3"),
}
"""Name of the picture → theme, and what is open."""


def run(folder: Path, model: str, *arguments: str) -> None:
    """Run the example suites; a gate that fails is wanted."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    given = [f"--model={model}", *arguments, "example_suites"]
    subprocess.run([*command, *given], cwd=folder, check=False)


def main() -> None:
    """Make all pictures."""
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        folder = Path(name)
        shutil.copytree(ROOT / "example_suites", folder / "example_suites")
        (folder / "pytest.ini").write_text("[pytest]\n")
        run(folder, MODEL, "--evals-save-baseline=main")
        gate = "--evals-gate=capitals/acc >= 0.65"
        page = "--evals-html=report.html"
        run(folder, f"{MODEL},dtype=bfloat16", "--evals-compare=main", gate, page)
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"))
        for picture, (theme, address) in PICTURES.items():
            tab = browser.new_page(viewport=DESK, color_scheme=theme)
            tab.goto(f"{(folder / 'report.html').as_uri()}{address}")
            tab.wait_for_selector("html[data-ready]")
            tab.wait_for_timeout(300)
            tab.screenshot(path=HERE / f"html_report_{picture}.png")
        browser.close()


if __name__ == "__main__":
    main()
