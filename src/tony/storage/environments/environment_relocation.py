"""Makes a Python environment work in the folder that it was unpacked in.

A venv stores the path of its folder in its scripts' first lines, its activate scripts and `pyvenv.cfg`. Python itself
finds its modules relative to its executable, so nothing else has to change. Only regular files in a real `bin/`
directory are touched: a link in a malicious archive must not lead to files outside.
"""

from __future__ import annotations

import os
import re
import shlex
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from tony.linux.files import replace_file

#: The longest first line that every kernel reads whole (BINPRM_BUF_SIZE was 128 until Linux 5.1).
_MAX_SHEBANG_BYTES = 127
#: Scripts are small; anything larger is a binary.
_MAX_SCRIPT_BYTES = 4 * 1024 * 1024

_SHEBANG = re.compile(rb"#![ \t]*(/[^\s]+)/(python[\w.]*)[ \t]*([^\n\r]*)\r?\n")
#: First lines that installers write where a #! line would be too long or contain a space: shell and Python at once.
_EXEC = re.compile(rb"#!/bin/sh\n'''exec' (\"?)(/[^\n\"]+)/(python[\w.]*)\1 ([^\n]*?)\"\$0\" \"\$@\"\n' '''\n")
_ACTIVATED = re.compile(
    rb"""^[ \t]*(?:export |set -gx |setenv )?VIRTUAL_ENV[ =](['"]?)(/[^\n'"]+)\1\s*$""", re.MULTILINE
)
_CREATED = re.compile(rb"^command\s*=.* (/.*?)\s*$", re.MULTILINE)
_HOME = re.compile(rb"^home\s*=\s*(/.*?)\s*$", re.MULTILINE)
#: Interpreters that belong to the system and not to an environment.
_SYSTEM = frozenset({b"/bin", b"/usr/bin", b"/usr/local/bin"})


def relocate(prefix: Path) -> None:
    """Replace the old path; may be called again.

    Raises:
        OSError: a file cannot be read or written.
    """
    scripts = prefix / "bin"
    if not stat.S_ISDIR(os.lstat(scripts).st_mode):
        return
    config = _content(prefix / "pyvenv.cfg") or b""
    home = _HOME.search(config)
    kept = _SYSTEM | ({home[1]} if home else set())
    texts = dict(_scripts(scripts))
    old = set(_find_old_prefixes(config, texts.values())) - {os.fsencode(prefix)}
    for path, text in texts.items():
        new = _with_interpreter(text, os.fsencode(scripts), kept)
        if path.name.lower().startswith("activate"):
            new = _replace_prefixes(new, old, prefix)
        if new != text:
            _rewrite(path, new)
    if (moved := _replace_prefixes(config, old, prefix)) != config:
        _rewrite(prefix / "pyvenv.cfg", moved)


def _scripts(folder: Path) -> Iterator[tuple[Path, bytes]]:
    with os.scandir(folder) as entries:
        paths = sorted(Path(entry.path) for entry in entries)
    for path in paths:
        text = _content(path)
        if text is not None and (text.startswith(b"#!") or path.name.lower().startswith("activate")):
            yield path, text


def _content(path: Path) -> bytes | None:
    """Return the content of a small regular file; None for anything else."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with os.fdopen(file, "rb") as opened:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode) or status.st_size > _MAX_SCRIPT_BYTES:
            return None
        return opened.read()


def _find_old_prefixes(config: bytes, scripts: Iterable[bytes]) -> Iterator[bytes]:
    created = _CREATED.search(config)
    if created:
        yield created[1]
    for text in scripts:
        for match in _ACTIVATED.finditer(text):
            yield match[2]


def _with_interpreter(text: bytes, folder: bytes, kept: frozenset[bytes] | set[bytes]) -> bytes:
    """Return the script with first lines for the Python in `folder`, if they name one of an environment."""
    match, groups = _SHEBANG.match(text), (1, 2, 3)
    if match is None:
        match, groups = _EXEC.match(text), (2, 3, 4)
    if match is None or match[groups[0]] in kept or not match[groups[0]].endswith(b"/bin"):
        return text
    return _build_first_lines(folder + b"/" + match[groups[1]], match[groups[2]].strip()) + text[match.end() :]


def _build_first_lines(interpreter: bytes, options: bytes) -> bytes:
    line = b"#!" + interpreter + (b" " + options if options else b"") + b"\n"
    if len(line) <= _MAX_SHEBANG_BYTES and not re.search(rb"\s", interpreter):
        return line
    quoted = os.fsencode(shlex.quote(os.fsdecode(interpreter)))
    return b"#!/bin/sh\n'''exec' " + quoted + b" " + (options + b" " if options else b"") + b"\"$0\" \"$@\"\n' '''\n"


def _replace_prefixes(text: bytes, old: Iterable[bytes], prefix: Path) -> bytes:
    for place in sorted(old, key=len, reverse=True):
        # `/env` must not be found in `/env2`.
        text = re.sub(re.escape(place) + rb"(?![\w.-])", lambda _: os.fsencode(prefix), text)
    return text


def _rewrite(path: Path, text: bytes) -> None:
    replace_file(path, text, mode=stat.S_IMODE(os.lstat(path).st_mode))
