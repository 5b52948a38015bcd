"""Fakes with fault injection, and conformance suites, for the tests of tony and of its extensions."""
