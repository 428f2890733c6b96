"""Masking of known secrets in ``logging`` records: HTTP clients log complete URLs."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from pytest_evals.masking.registry import hidden, knows_any


@contextmanager
def masking_logs() -> Iterator[None]:
    """Mask known secrets in all records that are created inside the block.

    Filters would not be enough: each applies to one logger, and the loggers of a client
    change with its version.
    """
    make = logging.getLogRecordFactory()

    def masked(*args: Any, **kwargs: Any) -> logging.LogRecord:
        record = make(*args, **kwargs)
        if knows_any():
            _mask(record)
        return record

    logging.setLogRecordFactory(masked)
    try:
        yield
    finally:
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
