"""Run `main()` of a module: start.py MODULE. Must parse under any Python 3, so that an old one can report itself."""

import gc
import os
import sys

MINIMUM = (3, 11)
NEWER = ["python3.14", "python3.13", "python3.12", "python3.11"]


def look_further():  # type: ignore[no-untyped-def]
    """Replace this process by a newer interpreter of the node; return if there is none."""
    for name in NEWER:
        for folder in os.environ.get("PATH", os.defpath).split(os.pathsep):
            path = os.path.join(folder, name)
            if os.access(path, os.X_OK) and os.path.realpath(path) != os.path.realpath(sys.executable):
                os.execv(path, [path, "-I", "-S", os.path.abspath(__file__)] + sys.argv[1:])  # noqa: RUF005


if sys.version_info < MINIMUM:
    setting = os.environ.get("TONY_PYTHON_SETTING", "")
    message = "tony: Python 3.11 or later is required; " + sys.executable + " on host " + os.uname()[1]
    message += " is " + ".".join(map(str, sys.version_info[:2]))
    if os.environ.get("TONY_PYTHON"):
        message += " (" + setting + os.environ.get("TONY_PYTHON_PLACE", "") + "). Set it to a newer one, or "
        message += 'to "own" to ship yours.'
        sys.exit(message)
    look_further()  # type: ignore[no-untyped-call]
    message += ", and PATH has no newer one (" + os.environ.get("PATH", "") + "). Set " + setting + " to "
    sys.exit(message + 'a newer one, or to "own" to ship yours.')

gc.disable()  # loaded modules never become garbage; `isolated_interpreter.settle` enables it again
here = os.path.dirname(os.path.abspath(__file__))
programs = os.path.join(here, "programs-" + sys.implementation.cache_tag + ".zip")
sys.path.insert(0, programs if os.path.exists(programs) else os.path.join(here, "programs.zip"))
module = __import__(sys.argv.pop(1), fromlist=["main"])
sys.exit(module.main())
