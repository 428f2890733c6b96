"""Worker process for regular expressions, which can be killed when a search does not
end.

It is started by its path and does not import this package. A request is a length,
followed by ``(seconds, pattern, flags, method, arguments)`` in ``marshal`` format; a
reply is ``(error kind, value or error message)`` in the same format. A request that
exceeds the time limit ends the process.
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
"""Maximum characters of a string created by replacement."""
_MOST_BYTES = 2**31
"""Memory limit, on systems that support one."""


METHODS: dict[str, Callable[..., Any]] = {
    "findall": re.Pattern.findall,
    "is_in": lambda regex, text: regex.search(text) is not None,
    "matches": lambda regex, text: [
        (*found.span(), found.groups()) for found in regex.finditer(text)
    ],
    "split": re.Pattern.split,
    "sub": re.Pattern.sub,
}
"""Operations by name; arguments and values are plain."""


def serve(requests: IO[bytes], replies: IO[bytes]) -> None:
    """Answer requests until there are no more."""
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
    """Limit processor time, which is independent of the load; 0 for no limit."""
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
