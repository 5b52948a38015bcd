"""Compiled files are the same bytes, whatever the process that wants them has loaded."""

from __future__ import annotations

import marshal
import py_compile
import subprocess
import sys
from pathlib import Path
from types import CodeType
from typing import Any

import pytest

import tony
from tony.schedulers.shipping.archive_builder import compile_pyc

_CODE = """
import hashlib, sys
sys.path.insert(0, {source!r})
{loads}
from tony.schedulers.shipping.code_archives import _build_runtime, _list_runtime_files
print(hashlib.sha256(_build_runtime(_list_runtime_files())).hexdigest())
"""


def test_the_archive_does_not_depend_on_loaded_modules() -> None:
    """The whole archive of tony's own files, built by two processes with different interned strings."""
    source = str(Path(tony.__file__).parents[1])
    digests = set()
    for loads in ("", "import asyncio, json, unittest, email.mime.text, tony.am.main, tony.executor.main"):
        line = [sys.executable, "-c", _CODE.format(source=source, loads=loads)]
        done = subprocess.run(line, capture_output=True, text=True, check=False)
        assert done.stderr == ""
        digests.add(done.stdout)
    assert len(digests) == 1


def test_compiled_code_does_not_depend_on_installed_files(tmp_path: Path) -> None:
    """The same bytes, whether it was compiled here before, there is no such file, or it is old or damaged."""
    path = tmp_path / "a b.py"
    path.write_text("y = 'ä'\ndef f(x): return x + 1\n", encoding="utf-8")
    source = path.read_bytes()
    fresh = compile_pyc(source, path, "tony/a b.py")
    assert fresh[4:8] == b"\x01\0\0\0"
    code = marshal.loads(fresh[16:])
    assert {code.co_filename, *(each.co_filename for each in code.co_consts if isinstance(each, CodeType))} == {
        "tony/a b.py"
    }
    names: dict[str, Any] = {}
    exec(code, names)
    assert (names["y"], names["f"](1)) == ("ä", 2)
    installed = Path(py_compile.compile(str(path), doraise=True) or "")
    assert compile_pyc(source, path, "tony/a b.py") == fresh
    installed.write_bytes(installed.read_bytes()[:40])
    assert compile_pyc(source, path, "tony/a b.py") == fresh
    py_compile.compile(str(path))
    path.write_text("y = 1\n")
    assert marshal.loads(compile_pyc(b"y = 1\n", path, "tony/a.py")[16:]).co_consts[0] == 1


def test_installed_compiled_code_is_reused(tmp_path: Path) -> None:
    """Its code, not the source's, is in the result."""
    path = tmp_path / "a.py"
    path.write_text("y = 1\n")
    installed = Path(py_compile.compile(str(path), doraise=True) or "")
    other = marshal.dumps(compile("y = 2\n", "a.py", "exec"))
    installed.write_bytes(installed.read_bytes()[:16] + other)
    assert marshal.loads(compile_pyc(b"y = 1\n", path, "a.py")[16:]).co_consts[0] == 2


def test_invalid_python_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SyntaxError):
        compile_pyc(b"x =", tmp_path / "a.py", "a.py")
