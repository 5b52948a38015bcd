"""What all tests of Hadoop's wire share."""

from __future__ import annotations

from tests.support.coroutines import pytest_pyfunc_call as pytest_pyfunc_call
