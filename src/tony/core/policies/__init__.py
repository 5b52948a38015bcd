"""Policies: pure functions that return a decision and the reason for it."""
