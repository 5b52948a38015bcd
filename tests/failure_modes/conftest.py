"""The same fresh user as in the end-to-end tests, or one unknown to the machine; and a check that nothing is left."""

from tests.e2e.conftest import lab
from tests.failure_modes.unknown_users import other_user, person

__all__ = ["lab", "other_user", "person"]
