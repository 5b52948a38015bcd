"""How a program of ours is started: in a fresh interpreter, or in a fork of a process that has its modules loaded.

Either way it sees the standard library and this package, and nothing else: no site-packages, no PYTHONPATH.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import NoReturn

_CODE = "import sys; sys.path.insert(0, sys.argv.pop(1)); from {module} import main; sys.exit(main())"
_BEGIN, _END = _CODE.split("{module}")


def command(module: str, *arguments: str) -> list[str]:
    """The argv that runs `main()` of one of our modules with this interpreter and nothing but the standard library.

    `-I` ignores PYTHON* variables and the user's site folder, `-S` leaves site-packages out. Names of files mean the
    same to it as to us: if we take them for UTF-8 whatever the locale says, so does it.

    Args:
        module: such as `tony.executor.main`; its `main()` answers the exit code and reads `sys.argv[1:]`.
    """
    return [*_interpreter(), _CODE.format(module=module), _root(), *arguments]


def module_of(argv: Sequence[str]) -> str | None:
    """The module that an argv of `command` runs; None for any other argv."""
    begin = _interpreter()
    if len(argv) < len(begin) + 2 or argv[: len(begin)] != begin or argv[len(begin) + 1] != _root():
        return None
    code = argv[len(begin)]
    return code[len(_BEGIN) : -len(_END)] if code.startswith(_BEGIN) and code.endswith(_END) else None


def seclude() -> None:
    """Makes this process, a fork, see what a fresh interpreter of ours sees."""
    library = os.path.dirname(os.__file__)
    sys.path[:] = [_root(), library, os.path.join(library, "lib-dynload")]
    sys.path_importer_cache.clear()
    sys.excepthook = sys.__excepthook__


def load(*modules: str) -> None:
    """Imports modules that will be needed, without OpenSSL.

    asyncio loads it where it is there: 4 MiB and some milliseconds in each process, for a class that we do not use.
    Our own TLS (`rpc.tls`) loads it when it is needed.
    """
    without = "ssl" not in sys.modules
    if without:
        sys.modules["ssl"] = None  # type: ignore[assignment]
    try:
        for module in modules:
            import_module(module)
    finally:
        if without:
            del sys.modules["ssl"]


def settle() -> None:
    """All is loaded, and from now on we live long: what becomes garbage is collected again, what is loaded never is.

    Whoever starts a program of ours may switch the collector off while it loads, which takes a tenth of the time.
    """
    gc.freeze()
    gc.enable()


def enter(argv: Sequence[str]) -> NoReturn:
    """Goes on as the program of an argv of `command`, and ends this process, a fork, with its exit code."""
    module = module_of(argv)
    if module is None:
        raise ValueError(f"no program of ours: {argv}")
    sys.argv = ["-c", *argv[len(_interpreter()) + 2 :]]
    # Whatever our parent had made of its own: buffers, captures, handlers of its log.
    sys.stdout = open(1, "w", encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", 1, encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
    if "logging" in sys.modules:
        sys.modules["logging"].getLogger().handlers.clear()
    code = 1
    try:
        answer = import_module(module).main()
        code = answer if isinstance(answer, int) else 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        if end.code is not None and not isinstance(end.code, int):
            print(end.code, file=sys.stderr)  # as an interpreter does
    except BaseException:  # the outermost place of a program
        sys.excepthook(*sys.exc_info())
    finally:
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except (OSError, ValueError):
                pass
        os._exit(code)


def _interpreter() -> list[str]:
    # A locale of ASCII makes Python choose UTF-8 by itself, unless it was told not to: then we say so.
    forced = ["-X", "utf8"] if sys.flags.utf8_mode and "utf8" in sys._xoptions else []
    return [sys.executable, "-I", "-S", *forced, "-c"]


def _root() -> str:
    return str(Path(__file__).resolve().parent.parent)
