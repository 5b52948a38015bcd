"""The same fresh user as in the end-to-end tests, and the same proof that nothing is left behind."""

from tests.e2e.conftest import lab

__all__ = ["lab"]
