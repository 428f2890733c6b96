"""Masking of known secrets in ``logging`` records, since HTTP clients log complete
URLs, and in warnings that nobody records."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from pytest_evals.masking.registry import hidden, knows_any


@contextmanager
def masking_logs() -> Iterator[None]:
    """Mask known secrets in records that are created, and in warnings that are shown,
    inside the block.

    Filters would not be enough: each applies to one logger, and the loggers of a client
    change with its version.
    """
    make, show = logging.getLogRecordFactory(), warnings.showwarning

    def masked(*args: Any, **kwargs: Any) -> logging.LogRecord:
        record = make(*args, **kwargs)
        if knows_any():
            _mask(record)
        return record

    def shown(message: Warning | str, *args: Any, **kwargs: Any) -> None:
        text = str(message)
        show(message if hidden(text) is text else hidden(text), *args, **kwargs)

    logging.setLogRecordFactory(masked)
    warnings.showwarning = shown
    try:
        yield
    finally:
        if warnings.showwarning is shown:
            warnings.showwarning = show
        if logging.getLogRecordFactory() is masked:
            logging.setLogRecordFactory(make)


def _mask(record: logging.LogRecord) -> None:
    with suppress(Exception):  # arguments that do not fit are reported by the handler
        text = record.getMessage()
        shown = hidden(text)
        if shown is not text:
            record.msg, record.args = shown, ()
    if record.exc_info and not record.exc_text:
        text = logging.Formatter().formatException(record.exc_info)
        shown = hidden(text)
        if shown is not text:
            record.exc_text = shown
