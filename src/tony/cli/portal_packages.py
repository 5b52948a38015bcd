"""Whether the packages of the portal are installed, which are optional."""

from __future__ import annotations

from importlib.util import find_spec

from tony.errors import UserError

#: Packages that the pages need; the extra `web` installs them.
_REQUIRED_PACKAGES = ("starlette", "jinja2", "uvicorn")


def check_portal_packages() -> None:
    """Raise UserError if a package is missing; the message says how to install it."""
    missing = [name for name in _REQUIRED_PACKAGES if find_spec(name) is None]
    if missing:
        raise UserError(
            f"the portal needs {', '.join(missing)}, which {'are' if len(missing) > 1 else 'is'} not installed: "
            "run `pip install 'tony-jobs[web]'`"
        )
