"""Makes every Python of a task dump its stack traces on the signal in TONY_STACKS.

`faulthandler` does that even while the program is blocked in C. It writes to an anonymous file, which the executor
finds and reads (`executor/program/stack_dump.py`). No files are left behind; a process without such a file is
never signalled. A program that handles the signal itself keeps its handler. It also installs `tony_jax_cluster` with
`framework = "jax"`, and `tony_collective_trace` where PyTorch records its collective operations.

Runs on every Python version: all Python processes that a program starts load this.
"""

import os
import sys

_NAME = "tony-stacks"


def _register_faulthandler(number):  # type: (int) -> None
    import faulthandler  # late: every Python process of a task runs this
    import fcntl

    from tony_descriptors import move_up  # type: ignore[import-not-found]  # next to this file

    _signal = __import__("_signal")  # `signal` loads ten times as much, in every Python that starts
    if _signal.getsignal(number) != _signal.SIG_DFL:
        return
    if hasattr(os, "memfd_create"):
        low = os.memfd_create(_NAME)
    else:  # Python was built for an older Linux
        import tempfile  # late: every Python process of a task runs this

        low, path = tempfile.mkstemp(prefix=_NAME + ".")
        os.unlink(path)
    high = move_up(low)
    fcntl.fcntl(high, fcntl.F_SETFL, fcntl.fcntl(high, fcntl.F_GETFL) | os.O_APPEND)
    faulthandler.register(number, file=high, all_threads=True, chain=False)


def _run_original_sitecustomize():  # type: () -> None
    """Run the `sitecustomize` that would run without this one."""
    folder = os.path.dirname(os.path.abspath(__file__))
    rest = [each for each in sys.path if os.path.abspath(each) != folder]
    if sys.version_info < (3, 5):  # noqa: UP036 - the user's Python, not ours
        imp = __import__("imp")
        found = imp.find_module("sitecustomize", rest)
        imp.load_module("sitecustomize", *found)
        return
    finders = [finder for finder in sys.meta_path if getattr(finder, "__name__", "") == "PathFinder"]
    spec = finders[0].find_spec("sitecustomize", rest) if finders else None
    if spec is None or spec.loader is None:
        # As if there were none: `site` ignores this, and a program that imports it gets this error.
        raise ImportError("No module named 'sitecustomize'", name="sitecustomize")
    module = __import__("_frozen_importlib").module_from_spec(spec)  # `importlib.util` loads much more
    sys.modules["sitecustomize"] = module  # `import` returns this entry, not the module that ran
    spec.loader.exec_module(module)


if __name__ == "sitecustomize":
    try:
        if os.environ.get("TONY_STACKS"):
            _register_faulthandler(int(os.environ["TONY_STACKS"]))
    except Exception:  # a failing hook must not prevent the program's start
        pass
    try:
        if "JAX_PROCESS_ID" in os.environ and sys.version_info >= (3, 10):
            __import__("tony_jax_cluster").install()
    except Exception:
        pass
    try:
        if "TONY_STACKS" in os.environ and os.environ.get("TORCH_FR_BUFFER_SIZE", "0") != "0":
            __import__("tony_collective_trace").install()
    except Exception:  # a SyntaxError before Python 3.7
        pass
    _run_original_sitecustomize()
