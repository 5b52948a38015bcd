"""`tony.progress` and `tony.checkpoint` for a program whose Python has no `tony`; implemented in `reporting.py`.

If the program has another package of this name, wherever it is, `import tony` returns that one. This file runs on every
Python version.
"""

import os
import sys


def _import_other_package():  # type: () -> bool
    """Import the package named `tony` that would be found without this one; return True if there is one."""
    folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    rest = [each for each in sys.path if os.path.abspath(each) != folder]
    if sys.version_info < (3, 4):  # noqa: UP036 - the user's Python, not ours
        imp = __import__("imp")
        try:
            found = imp.find_module("tony", rest)
        except ImportError:
            return False
        imp.load_module("tony", *found)
        return True
    import importlib.machinery  # late: only where another `tony` is installed
    import importlib.util

    for finder in sys.meta_path:
        find = getattr(finder, "find_spec", None)
        spec = find("tony", rest if finder is importlib.machinery.PathFinder else None) if find else None
        # A data folder may have this name, and a finder that ignores `rest` finds this package.
        if spec is None or spec.loader is None or not spec.origin or os.path.abspath(spec.origin) == __file__:
            continue
        module = importlib.util.module_from_spec(spec)
        sys.modules["tony"] = module  # `import tony` returns this entry, not the module that ran
        spec.loader.exec_module(module)
        return True
    return False


if __name__ == "tony" and not _import_other_package():
    if sys.version_info < (3, 7):  # noqa: UP036 - the user's Python, not ours
        raise ImportError("No module named 'tony' (tony's own needs Python 3.7 or newer)")
    from tony.reporting import checkpoint, progress  # type: ignore[import-not-found]

    __all__ = ["checkpoint", "progress"]
