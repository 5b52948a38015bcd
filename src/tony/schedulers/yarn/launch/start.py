"""Runs `main()` of one of our modules: start.py MODULE. Must be read by any Python 3, so that an old one can say so."""

import gc
import os
import sys

MINIMUM = (3, 11)
NEWER = ["python3.14", "python3.13", "python3.12", "python3.11"]


def look_further():  # type: ignore[no-untyped-def]
    """Becomes a newer interpreter of this node; returns if there is none."""
    for name in NEWER:
        for folder in os.environ.get("PATH", os.defpath).split(os.pathsep):
            path = os.path.join(folder, name)
            if os.access(path, os.X_OK) and os.path.realpath(path) != os.path.realpath(sys.executable):
                os.execv(path, [path, "-I", "-S", os.path.abspath(__file__)] + sys.argv[1:])  # noqa: RUF005


if sys.version_info < MINIMUM:
    said = "tony: Python 3.11 or later is needed; " + sys.executable + " on host " + os.uname()[1]
    said += " is " + ".".join(map(str, sys.version_info[:2]))
    if os.environ.get("TONY_PYTHON"):
        said += " (scheduler.yarn.python" + os.environ.get("TONY_PYTHON_PLACE", "") + "). Name a newer one, or "
        said += 'ship your own: "own".'
        sys.exit(said)
    look_further()  # type: ignore[no-untyped-call]
    said += ", and no newer one is on PATH (" + os.environ.get("PATH", "") + "). Name one with scheduler.yarn.python, "
    sys.exit(said + 'or ship your own with scheduler.yarn.python = "own".')

gc.disable()  # nothing of what is loaded ever becomes garbage; `bootstrap.settle` undoes it
here = os.path.dirname(os.path.abspath(__file__))
programs = os.path.join(here, "programs-" + sys.implementation.cache_tag + ".zip")
sys.path.insert(0, programs if os.path.exists(programs) else os.path.join(here, "programs.zip"))
module = __import__(sys.argv.pop(1), fromlist=["main"])
sys.exit(module.main())
