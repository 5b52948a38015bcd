"""Compiles our programs to the same bytes, whoever does it and when.

What Python writes for a module depends on what else the process has loaded: it notes which strings have other users. So
a fresh interpreter does it, which has loaded nothing.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Iterable, Sequence

from tony.errors import StorageError

#: Reads `size name`, then the source, again and again; writes the size and what it was compiled to.
_COMPILER = r"""
import marshal, sys
while head := sys.stdin.buffer.readline():
    size, name = head.decode().rstrip("\n").split(" ", 1)
    code = compile(sys.stdin.buffer.read(int(size)), name, "exec", dont_inherit=True, optimize=0)
    compiled = marshal.dumps(code)
    sys.stdout.buffer.write(b"%d\n" % len(compiled) + compiled)
"""
_UNCHECKED = (0b01).to_bytes(4, "little")


def compiled(sources: Sequence[tuple[str, bytes]]) -> list[bytes]:
    """Files that are taken without a look at their source (PEP 552, unchecked), for what never changes.

    Args:
        sources: name, as tracebacks show it, and content of each module.

    Raises:
        StorageError: no second interpreter can be started.
    """
    from concurrent.futures import ThreadPoolExecutor  # late: made once for each version of ours

    half = (len(sources) + 1) // 2  # always two parts: what is compiled beside a module shows in its bytes
    with ThreadPoolExecutor(2) as both:
        first, second = both.map(_compiled, (sources[:half], sources[half:]))
    headers = (importlib.util.MAGIC_NUMBER + _UNCHECKED + importlib.util.source_hash(source) for _, source in sources)
    return [header + code for header, code in zip(headers, (*first, *second), strict=True)]


def _compiled(sources: Sequence[tuple[str, bytes]]) -> list[bytes]:
    text = b"".join(b"%d %s\n%s" % (len(source), name.encode(), source) for name, source in sources)
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", _COMPILER], input=text, capture_output=True, check=False
        )
    except OSError as error:
        raise StorageError(f"our own programs cannot be compiled: {sys.executable}: {error.strerror}") from error
    if done.returncode:
        last = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        raise StorageError(f"our own programs cannot be compiled: {''.join(last) or f'exit code {done.returncode}'}")
    return list(_read(done.stdout))


def _read(answer: bytes) -> Iterable[bytes]:
    place = 0
    while place < len(answer):
        end = answer.index(b"\n", place)
        size = int(answer[place:end])
        yield answer[end + 1 : end + 1 + size]
        place = end + 1 + size
