"""Fakes with faults on order, and conformance suites; for our tests and for yours."""
