"""Start tony's own processes: in a fresh interpreter, or in a fork of a process that has already loaded the modules.

Either way the process sees the standard library and this package only: no site-packages, no PYTHONPATH.
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
    """Return the argv that runs `main()` of one of tony's modules with this interpreter and the standard library only.

    `-I` ignores PYTHON* variables and the user's site folder, `-S` leaves out site-packages. File names are decoded as
    in this process: UTF-8 mode is passed on.

    Args:
        module: such as `tony.executor.main`; its `main()` returns the exit code and reads `sys.argv[1:]`.
    """
    return [*_interpreter(), _CODE.format(module=module), _root(), *arguments]


def module_of(argv: Sequence[str]) -> str | None:
    """Return the module that an argv built by `command` runs; None for any other argv."""
    begin = _interpreter()
    if len(argv) < len(begin) + 2 or argv[: len(begin)] != begin or argv[len(begin) + 1] != _root():
        return None
    code = argv[len(begin)]
    return code[len(_BEGIN) : -len(_END)] if code.startswith(_BEGIN) and code.endswith(_END) else None


def seclude() -> None:
    """Make this process, a fork, see only what a fresh interpreter started by `command` sees."""
    library = os.path.dirname(os.__file__)
    sys.path[:] = [_root(), library, os.path.join(library, "lib-dynload")]
    sys.path_importer_cache.clear()
    sys.excepthook = sys.__excepthook__


def load(*modules: str) -> None:
    """Import modules that will be needed, without OpenSSL.

    asyncio imports `ssl` if it can: 4 MiB and some milliseconds in each process, for a class that tony does not use.
    `rpc/tls_pipe.py` imports it when TLS is needed.
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
    """Resume garbage collection after start-up, and exempt everything loaded so far from it.

    The parent may start a process with the collector disabled, which saves a tenth of the loading time.
    """
    gc.freeze()
    gc.enable()


def enter(argv: Sequence[str]) -> NoReturn:
    """Continue this process, a fork, as the command of an argv built by `command`, and exit with its exit code."""
    module = module_of(argv)
    if module is None:
        raise ValueError(f"not a tony command: {argv}")
    sys.argv = ["-c", *argv[len(_interpreter()) + 2 :]]
    # Replace what the parent set up: buffers, captured streams, log handlers.
    sys.stdout = open(1, "w", encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", 1, encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
    if "logging" in sys.modules:
        sys.modules["logging"].getLogger().handlers.clear()
    code = 1
    try:
        result = import_module(module).main()
        code = result if isinstance(result, int) else 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        if end.code is not None and not isinstance(end.code, int):
            print(end.code, file=sys.stderr)  # as an interpreter does
    except BaseException:  # the outermost handler of the process
        sys.excepthook(*sys.exc_info())
    finally:
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except (OSError, ValueError):
                pass
        os._exit(code)


def _interpreter() -> list[str]:
    # Python chooses UTF-8 mode by itself in an ASCII locale; pass it on only where it was requested explicitly.
    forced = ["-X", "utf8"] if sys.flags.utf8_mode and "utf8" in sys._xoptions else []
    return [sys.executable, "-I", "-S", *forced, "-c"]


def _root() -> str:
    return str(Path(__file__).resolve().parent.parent)
