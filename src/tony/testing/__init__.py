"""For tests of third-party schedulers: the conformance suite, a fake scheduler, and faults."""
