"""Makes the standard streams usable if they are closed, unbuffered, full, or have no reader.

Output that cannot be written is a failure of the command, with an exit code. A message that cannot be written to
standard error is not: it must not change the exit code.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
from typing import Any, cast


class _ErrorIgnoringStream(io.FileIO):
    """A file that ignores write errors."""

    def write(self, data: Any, /) -> int:
        """Write data; report success even if the disk is full or the reader has gone."""
        try:
            written: int | None = super().write(data)
        except OSError:
            written = None
        return memoryview(data).nbytes if written is None else written


def prepare_output() -> None:
    """Make the streams accept every character in every locale, and replace closed ones with /dev/null."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - stays open until exit
        elif isinstance(stream, io.TextIOWrapper):
            if stream is getattr(sys, f"__{name}__"):
                stream = _wrap(stream, ignore_errors=name == "stderr")
                setattr(sys, name, stream)
                setattr(sys, f"__{name}__", stream)
            stream.reconfigure(errors="backslashreplace")


def settle_output() -> None:
    """Flush the streams, so that Python does not report a failure of its own flush at exit."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            with contextlib.suppress(OSError, ValueError):
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, stream.fileno())
                os.close(nowhere)


def _wrap(stream: io.TextIOWrapper, *, ignore_errors: bool) -> io.TextIOWrapper:
    """Return the stream with a buffer, and without write errors if wanted.

    Under PYTHONUNBUFFERED a stream has no buffer and loses what its reader does not take at once.
    """
    buffer: object = stream.buffer
    if not ignore_errors and not isinstance(buffer, io.RawIOBase):
        return stream
    encoding, by_line = stream.encoding, stream.line_buffering or isinstance(buffer, io.RawIOBase)
    number = stream.fileno()
    inner = stream.detach()
    raw = _ErrorIgnoringStream(number, "w", closefd=False) if ignore_errors else cast(io.RawIOBase, inner)
    return io.TextIOWrapper(io.BufferedWriter(raw), encoding=encoding, line_buffering=by_line)
