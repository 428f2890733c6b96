"""The image of the terminal shows the screen of its page."""

import re
from html import unescape

from tests import screens
from tests.tools import terminal_picture


def test_picture_of_the_terminal_shows_the_screen_of_its_page():
    steps = screens.steps(terminal_picture.PAGE.read_text("utf-8"))
    (screen,) = [step.body for step in steps if step.command]
    text = re.sub(r"<[^>]+>", "", terminal_picture.PICTURE.read_text("utf-8"))
    drawn = unescape(re.sub(r"^\s*text\{.*?\}$", "", text, flags=re.MULTILINE))
    expected = [
        part
        for line in terminal_picture.failure_and_table(screen.splitlines())
        for part in terminal_picture.wrapped(line)
        if part
    ]
    shown = [line for line in drawn.splitlines() if line.strip()]
    assert screens.timeless("\n".join(shown)) == screens.timeless("\n".join(expected))
