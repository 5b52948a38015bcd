"""How a program of ours is started by another: isolated from the user's site-packages and environment switches."""

from __future__ import annotations

import sys
from pathlib import Path

_CODE = "import sys; sys.path.insert(0, sys.argv.pop(1)); from {module} import main; sys.exit(main())"


def command(module: str, *arguments: str) -> list[str]:
    """The argv that runs `main()` of one of our modules with this interpreter and nothing but the standard library.

    `-I` ignores PYTHON* variables and the user's site folder, `-S` leaves site-packages out.

    Args:
        module: such as `tony.executor.main`; its `main()` answers the exit code and reads `sys.argv[1:]`.
    """
    root = str(Path(__file__).resolve().parent.parent)
    return [sys.executable, "-I", "-S", "-c", _CODE.format(module=module), root, *arguments]
