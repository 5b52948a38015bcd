"""Fakes, fault injection and load for tests and benchmarks; no part of the wheel.

Some modules run as processes of a job, which see the standard library and `tony` only (`child_modules`).
"""
