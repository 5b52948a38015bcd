"""Our standard streams, whatever our parent made of them: closed, unbuffered, full, or with nobody who reads.

An answer that cannot be written is a failure of the command, and has an exit code. A message that cannot be written on
standard error is not: the exit code says the same in short, and it must not be lost over the words.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
from typing import Any, cast


class __ErrorIgnoringStream(io.FileIO):
    """Swallows what nobody takes."""

    def write(self, data: Any, /) -> int:
        """As of any file; a full disk, or a reader that has gone, takes everything."""
        try:
            written: int | None = super().write(data)
        except OSError:
            written = None
        return memoryview(data).nbytes if written is None else written


def prepare_output() -> None:
    """Whatever the locale, no character makes us fail; and a stream that was closed by our parent swallows all."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - stays open to our end
        elif isinstance(stream, io.TextIOWrapper):
            if stream is getattr(sys, f"__{name}__"):
                stream = _own(stream, careless=name == "stderr")
                setattr(sys, name, stream)
                setattr(sys, f"__{name}__", stream)
            stream.reconfigure(errors="backslashreplace")


def settle_output() -> None:
    """Nothing is left for Python to write when it ends: it would tell of its failure in its own way."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            with contextlib.suppress(OSError, ValueError):
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, stream.fileno())
                os.close(nowhere)


def _own(stream: io.TextIOWrapper, *, careless: bool) -> io.TextIOWrapper:
    """One of the process's own streams, made complete.

    Under PYTHONUNBUFFERED it has no buffer, and writes only what its reader takes at once; the rest is lost.
    """
    buffer: object = stream.buffer
    if not careless and not isinstance(buffer, io.RawIOBase):
        return stream
    encoding, by_line = stream.encoding, stream.line_buffering or isinstance(buffer, io.RawIOBase)
    number = stream.fileno()
    inner = stream.detach()
    raw = __ErrorIgnoringStream(number, "w", closefd=False) if careless else cast(io.RawIOBase, inner)
    return io.TextIOWrapper(io.BufferedWriter(raw), encoding=encoding, line_buffering=by_line)
