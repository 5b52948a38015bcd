"""As for the jobs that are looked at: tests are coroutines where they wait, and a home is at hand."""

from __future__ import annotations

from tests.jobs.conftest import home, pytest_pyfunc_call

__all__ = ["home", "pytest_pyfunc_call"]
