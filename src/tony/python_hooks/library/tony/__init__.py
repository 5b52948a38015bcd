"""`tony.progress` and `tony.checkpoint` for a program whose Python has no `tony`: what they do is in `reporting.py`.

A program that has a package of this name shall have that one, wherever it is, and not know of us. So this file is
understood by every Python, the oldest as well.
"""

import os
import sys


def _give_way():  # type: () -> bool
    """Has `import tony` answer the package that there would be without us; whether there is one."""
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
    import importlib.machinery
    import importlib.util

    for finder in sys.meta_path:
        find = getattr(finder, "find_spec", None)
        spec = find("tony", rest if finder is importlib.machinery.PathFinder else None) if find else None
        # A folder of data may have this name; and a finder that knows nothing of `rest` finds us.
        if spec is None or spec.loader is None or not spec.origin or os.path.abspath(spec.origin) == __file__:
            continue
        module = importlib.util.module_from_spec(spec)
        sys.modules["tony"] = module  # what is in there when we are loaded is what `import tony` answers
        spec.loader.exec_module(module)
        return True
    return False


if __name__ == "tony" and not _give_way():
    if sys.version_info < (3, 7):  # noqa: UP036 - the user's Python, not ours
        raise ImportError("No module named 'tony' (that of the job needs Python 3.7)")
    from tony.reporting import checkpoint, progress  # type: ignore[import-not-found]

    __all__ = ["checkpoint", "progress"]
