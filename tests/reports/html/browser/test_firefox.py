"""The page in Firefox, driven by its own remote protocol, Marionette: JSON over TCP.

Playwright needs its own patched Firefox; Debian's is an unmodified one. Without it
these tests are skipped.
"""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import time
from contextlib import suppress

import pytest

pytestmark = pytest.mark.nightly
NAMES = ("firefox-esr", "firefox")
PATIENCE_S = 60
ERRORS = """
window.faults = [];
addEventListener("error", (event) => faults.push(event.message));
addEventListener("unhandledrejection", (event) => faults.push(String(event.reason)));
"""


class Firefox:
    """A headless window."""

    def __init__(self, command, profile):
        profile.mkdir()
        port = free_port()
        settings = f'user_pref("marionette.port", {port});\n'
        (profile / "user.js").write_text(settings, encoding="utf-8")
        given = ["--headless", "--marionette", "--no-remote", "--profile", str(profile)]
        self.process = subprocess.Popen(
            [command, *given], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        self.socket = connected(port)
        self.lines = self.socket.makefile("rb")
        self._receive()  # the greeting
        self._n = 0
        self.command("WebDriver:NewSession", {"pageLoadStrategy": "normal"})

    def command(self, name, values=None):
        self._n += 1
        text = json.dumps([0, self._n, name, values or {}])
        self.socket.sendall(f"{len(text.encode())}:{text}".encode())
        _, _, error, result = self._receive()
        assert error is None, (name, error)
        return result

    def _receive(self):
        digits = b""
        while (one := self.lines.read(1)) != b":":
            digits += one
        return json.loads(self.lines.read(int(digits)))

    def open(self, path, address=""):
        self.command("WebDriver:Navigate", {"url": "about:blank"})
        self.command("WebDriver:Navigate", {"url": f"{path.as_uri()}{address}"})
        self.wait("return 'ready' in document.documentElement.dataset")

    def run(self, script):
        given = {"script": script, "args": [], "sandbox": None}
        return self.command("WebDriver:ExecuteScript", given)["value"]

    def wait(self, script):
        until = time.monotonic() + PATIENCE_S
        while not (found := self.run(script)):
            assert time.monotonic() < until, script
            time.sleep(0.1)
        return found

    def press(self, key):
        press = [{"type": kind, "value": key} for kind in ("keyDown", "keyUp")]
        actions = [{"type": "key", "id": "keyboard", "actions": press}]
        self.command("WebDriver:PerformActions", {"actions": actions})

    def close(self):
        with suppress(OSError, AssertionError, ValueError):
            self.command("Marionette:Quit", {"flags": ["eForceQuit"]})
        self.lines.close()
        self.socket.close()
        try:
            self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def connected(port):
    until = time.monotonic() + PATIENCE_S
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port), PATIENCE_S)
        except OSError:
            assert time.monotonic() < until, "Firefox does not start"
            time.sleep(0.2)


@pytest.fixture(scope="module")
def firefox(tmp_path_factory):
    command = next(filter(None, map(shutil.which, NAMES)), None)
    if command is None:
        pytest.skip("there is no Firefox: apt-get install firefox-esr")
    started = Firefox(command, tmp_path_factory.mktemp("firefox") / "profile")
    yield started
    started.close()


def test_views_are_drawn_and_nothing_overflows(firefox, story):
    for width in (1280, 480):
        firefox.command("WebDriver:SetWindowRect", {"width": width, "height": 900})
        for view in ("summary", "gates", "task?name=all", "changes", "run"):
            firefox.open(story, f"#/{view}")
            firefox.wait("return document.querySelector('main h1').innerText")
            wide = "document.documentElement.scrollWidth - innerWidth"
            assert firefox.run(f"return {wide}") <= 0, (view, width)
    firefox.command("WebDriver:SetWindowRect", {"width": 1280, "height": 900})
    firefox.open(story, "#/task?name=capitals")
    drawn = "return [...document.querySelectorAll('figure svg')].length"
    assert firefox.wait(drawn) >= 1


def test_documents_are_found_and_read_by_keyboard(firefox, story):
    firefox.open(story, "#/documents?task=quiz")
    shown = "return document.querySelector('.document h2')?.innerText"
    assert firefox.wait(shown) == "d0"
    firefox.press("j")
    firefox.wait("return document.querySelector('.document h2')?.innerText === 'd1'")
    assert firefox.run("return document.querySelectorAll('.pair pre del').length") == 2
    firefox.press("/")
    firefox.wait("return document.activeElement.type === 'search'")
    for key in "needle":
        firefox.press(key)
    firefox.wait("return document.querySelector('.told').innerText === '1 document'")
    assert firefox.run("return location.hash").startswith("#/documents?task=quiz")
    assert firefox.run("return document.querySelector('.doc .id').innerText") == "d0"


def test_scripts_have_no_errors(firefox, story):
    firefox.open(story, "#/summary")
    firefox.run(ERRORS)
    for view in ("gates", "task?name=quiz", "documents", "changes", "run", "summary"):
        firefox.run(f"location.hash = '#/{view}'")
        firefox.wait("return document.querySelector('nav [aria-current]')")
        time.sleep(0.2)
    assert firefox.run("return window.faults ?? []") == []
