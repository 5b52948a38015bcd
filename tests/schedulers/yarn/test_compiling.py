"""Compiled files are the same bytes, whatever the process that wants them has loaded."""

from __future__ import annotations

import marshal
import subprocess
import sys
from pathlib import Path

import pytest

import tony
from tony.errors import StorageError
from tony.schedulers.yarn.compiling import compiled

_CODE = """
import hashlib, sys
sys.path.insert(0, {source!r})
{loads}
from tony.schedulers.yarn.runtime import _archive
print(hashlib.sha256(_archive()).hexdigest())
"""


def test_what_else_is_loaded_does_not_count() -> None:
    """The whole archive of our programs, by two processes that know different strings."""
    source = str(Path(tony.__file__).parents[1])
    digests = set()
    for loads in ("", "import asyncio, json, unittest, email.mime.text, tony.am.main, tony.executor.main"):
        line = [sys.executable, "-c", _CODE.format(source=source, loads=loads)]
        done = subprocess.run(line, capture_output=True, text=True, check=False)
        assert done.stderr == ""
        digests.add(done.stdout)
    assert len(digests) == 1


def test_each_by_itself() -> None:
    """In order, with the name in it, and without a look at the source."""
    one, two = compiled([("tony/a b.py", b"x = 1\n"), ("tony/\xe4.py", "y = 'ä\\n'".encode())])
    assert one[:16] != two[:16]
    assert one[4:8] == two[4:8] == b"\x01\0\0\0"
    assert marshal.loads(one[16:]).co_filename == "tony/a b.py"
    names: dict[str, str] = {}
    exec(marshal.loads(two[16:]), names)
    assert names["y"] == "ä\n"
    assert compiled([]) == []


def test_what_is_no_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """Says why; and so if there is no interpreter."""
    with pytest.raises(StorageError, match="SyntaxError"):
        compiled([("a.py", b"x =")])
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(StorageError, match="/nowhere/python: No such file"):
        compiled([("a.py", b"")])
