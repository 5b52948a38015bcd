"""Kerberos without a KDC: which principals are believed, and what is said where there is nothing to log in with."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import tony
from tony.hadoop.sasl import gssapi
from tony.hadoop.sasl.digest_layers import SaslExchangeError
from tony.hadoop.sasl.gssapi import GssapiClient, matches


@pytest.mark.parametrize(
    ("principal", "glob", "expected"),
    [
        ("rm/h1@X", "rm/h1@X", True),
        ("rm/h1@X", "rm/H1@x", True),
        ("rm/h1@X", "rm/h1@Y", False),
        ("rm/h1@X", "rm/h2@X", False),
        ("rm/h1@X", "nm/h1@X", False),
        ("rm/h1", "rm/h1@X", True),
        ("rm/h1@", "rm/h1@X", True),
        ("rm/h1@X", "rm/h1", True),
        ("rm/h1@X", "*/*@X", True),
        ("rm/h1@X", "rm/*", True),
        ("rm/h1@X", "*@Y", False),
        ("rm/h1@X", "", False),
    ],
)
def test_matches(principal: str, glob: str, expected: bool) -> None:
    assert expected == matches(principal, (glob,))


def test_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gssapi, "_library", None)
    monkeypatch.setattr(gssapi, "_LIBRARIES", ("libno-such-thing.so.7",))
    with pytest.raises(SaslExchangeError, match="libgssapi-krb5-2 on Debian"):
        GssapiClient("rm", "h1")


def test_nothing_is_loaded_before_it_is_needed() -> None:
    """Neither ctypes nor ssl nor a thread pool comes with a connection that needs none."""
    code = (
        f"import sys; sys.path.insert(0, {str(Path(tony.__file__).parent.parent)!r}); sys.modules['ssl'] = None; "
        "import asyncio; del sys.modules['ssl']; "
        "import tony.hadoop.ipc.connection, tony.hadoop.tokens; "
        "print(sorted({'ctypes', 'ssl', 'concurrent.futures.thread', 'cryptography'}"
        " & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=False)
    assert (0, "[]", "") == (done.returncode, done.stdout.strip(), done.stderr)
