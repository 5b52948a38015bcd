"""Tests of sources are coroutines."""

from __future__ import annotations

from tests.support.coroutines import pytest_pyfunc_call as pytest_pyfunc_call
