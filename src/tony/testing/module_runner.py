"""Run a module from outside this package as an executor or an AM, to inject faults into jobs on this machine.

    command("tony.testing.module_runner", "/path/to/checkout", "tests.support.faulty_executor", "orders")

Those processes see the standard library and `tony` only: no site-packages, no PYTHONPATH. Its arguments are a folder to
append to `sys.path`, the module's name, and the module's arguments.
"""

from __future__ import annotations

import sys
from importlib import import_module


def main() -> int:
    """Run the module's `main()`; return its exit code."""
    folder, module = sys.argv[1:3]
    del sys.argv[1:3]
    sys.path.append(folder)
    code: int = import_module(module).main()
    return code
