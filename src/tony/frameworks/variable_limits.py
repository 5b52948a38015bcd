"""Size limits of one environment variable."""

from __future__ import annotations

#: Bytes of one string `NAME=value` with its final NUL. Linux refuses to start a program with a longer one
#: (MAX_ARG_STRLEN, 32 pages of 4 KiB; execve(2)). All strings together have room for about 2 MB.
MAX_STRING = 128 * 1024


def string_size(name: str, value: str) -> int:
    """Return the bytes of a variable in the environment: `NAME=value` and the final NUL."""
    return len(name.encode()) + len(value.encode(errors="surrogateescape")) + 2
