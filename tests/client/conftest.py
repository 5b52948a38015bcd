"""As for the jobs that are looked at: a home is at hand."""

from __future__ import annotations

from tests.jobs.conftest import home

__all__ = ["home"]
