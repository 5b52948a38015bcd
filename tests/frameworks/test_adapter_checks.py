"""What fits into one environment variable, asked of the kernel itself."""

import os
import subprocess
import sys

import pytest

from tony.frameworks.adapter_checks import MAX_STRING, string_size


def start_with(value: str) -> int:
    """Runs a small program with one variable."""
    return subprocess.run([sys.executable, "-I", "-S", "-c", ""], env={"V": value}, check=False).returncode


def test_size_counts_name_sign_value_and_nul() -> None:
    """`NAME=value` and the NUL, in bytes, not characters."""
    assert string_size("A", "") == 3
    assert string_size("AB", "xyz") == 7
    assert string_size("A", "é") == 5


def test_longest_string_is_accepted() -> None:
    """A program starts with a variable of exactly the limit."""
    value = "x" * (MAX_STRING - string_size("V", ""))
    assert string_size("V", value) == MAX_STRING
    assert start_with(value) == 0


def test_one_byte_more_is_refused() -> None:
    """The limit is the kernel's (with its usual pages of 4 KiB), not a guess."""
    value = "x" * (MAX_STRING - string_size("V", "") + 1)
    if os.sysconf("SC_PAGE_SIZE") == 4096:
        with pytest.raises(OSError, match="Argument list too long"):
            start_with(value)
