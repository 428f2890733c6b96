"""A process that runs regular expressions, so that one which does not end can be ended.

It is started by its path, and knows nothing of this package. A request is the length of
what follows, and ``(seconds, pattern, flags, method, arguments)`` by ``marshal``; a
reply is ``(kind of error, value or what the error says)`` in the same form. A request
that takes longer ends the process.
"""

from __future__ import annotations

import faulthandler
import marshal
import re
import signal
import struct
import sys
from collections.abc import Callable
from typing import IO, Any

LENGTH = struct.Struct("<I")
MOST_CHARACTERS = 2**26
"""Of a text that is made by replacing."""
_MOST_BYTES = 2**31
"""Of memory, where the system can limit it."""


METHODS: dict[str, Callable[..., Any]] = {
    "findall": re.Pattern.findall,
    "is_in": lambda regex, text: regex.search(text) is not None,
    "matches": lambda regex, text: [
        (*found.span(), found.groups()) for found in regex.finditer(text)
    ],
    "split": re.Pattern.split,
    "sub": re.Pattern.sub,
}
"""Name → what it does with a pattern; arguments and values are plain."""


def serve(requests: IO[bytes], replies: IO[bytes]) -> None:
    """Answer until no request comes."""
    while head := requests.read(LENGTH.size):
        asked = marshal.loads(requests.read(*LENGTH.unpack(head)))
        _limit_time(asked[0])
        raw = marshal.dumps(_reply(*asked[1:]))
        _limit_time(0)
        replies.write(LENGTH.pack(len(raw)) + raw)
        replies.flush()


def _reply(
    pattern: str, flags: int, method: str, arguments: tuple[Any, ...]
) -> tuple[str, Any]:
    try:
        regex = re.compile(pattern, flags)
        found = METHODS[method](regex, *arguments)
    except (re.error, IndexError, MemoryError, RecursionError) as error:
        return type(error).__name__, str(error)
    if isinstance(found, str) and len(found) > MOST_CHARACTERS:
        return "MemoryError", ""
    return "", found


def _limit_time(seconds: float) -> None:
    """Of the processor, so that a busy machine changes nothing; 0 for no limit."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_PROF, seconds)
    elif seconds:
        faulthandler.dump_traceback_later(seconds, exit=True, file=2)
    else:
        faulthandler.cancel_dump_traceback_later()


def _limit_memory() -> None:
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (_MOST_BYTES, _MOST_BYTES))
    except (ImportError, OSError, ValueError):
        return


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the other process
    _limit_memory()
    serve(sys.stdin.buffer, sys.stdout.buffer)
