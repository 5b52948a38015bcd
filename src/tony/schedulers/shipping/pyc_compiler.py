"""Compiles modules for the archives that tony builds."""

from __future__ import annotations

import importlib.util
import marshal
import warnings
from collections.abc import Iterable
from pathlib import Path
from types import CodeType

_UNCHECKED = (0b01).to_bytes(4, "little")
#: Marshal version: the output of later ones depends on what else this process has loaded.
_FORMAT = 2


def compile_pyc(source: bytes, path: Path, name: str) -> bytes:
    """Return an unchecked .pyc file (PEP 552), which Python loads without its source: extracted files never change.

    Reuses the installed .pyc if it belongs to this source, since compiling everything takes seconds.

    Args:
        path: of the source on this machine.
        name: as tracebacks show it.

    Raises:
        SyntaxError, ValueError: it is not Python.
    """
    code = _load_installed(source, path)
    if code is None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            code = compile(source, name, "exec", dont_inherit=True, optimize=0)
    header = importlib.util.MAGIC_NUMBER + _UNCHECKED + importlib.util.source_hash(source)
    return header + marshal.dumps(_rename_code(code, name), _FORMAT)


def _load_installed(source: bytes, path: Path) -> CodeType | None:
    try:
        content = Path(importlib.util.cache_from_source(str(path))).read_bytes()
        changed = int(path.stat().st_mtime) & 0xFFFFFFFF
    except OSError:
        return None
    stamp = changed.to_bytes(4, "little") + (len(source) & 0xFFFFFFFF).to_bytes(4, "little")
    if not content.startswith(importlib.util.MAGIC_NUMBER + bytes(4) + stamp):
        return None
    try:
        code = marshal.loads(content[16:])
    except (EOFError, TypeError, ValueError):  # a damaged file
        return None
    return code if isinstance(code, CodeType) else None


def _rename_code(code: CodeType, name: str) -> CodeType:
    inner: Iterable[object] = code.co_consts
    constants = tuple(_rename_code(each, name) if isinstance(each, CodeType) else each for each in inner)
    return code.replace(co_filename=name, co_consts=constants)
