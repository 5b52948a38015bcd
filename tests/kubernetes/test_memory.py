"""Programs that use more memory than their task has."""

from __future__ import annotations

import re

import pytest

from tests.kubernetes.lab import KubernetesLab

pytestmark = [pytest.mark.on_change("kube", "mini", "schedulers"), pytest.mark.slow, pytest.mark.e2e]

#: Grows above its 128 MiB, but below the container's 192 MiB, until it is stopped.
GROWS = """
import time
kept = []
while len(kept) < 150:
    kept.append(bytearray(b"x") * (1 << 20))
    time.sleep(0.01)
time.sleep(3600)
"""
#: In one piece, more than the container may have.
AT_ONCE = "kept = bytearray(b'x') * (400 << 20)"


def test_out_of_memory_is_named_with_both_numbers(lab: KubernetesLab) -> None:
    """Of the program's own limit, and of the container's, which the kernel enforces."""
    programs = {"grows": GROWS, "at-once": AT_ONCE}
    jobs = {name: lab.detach(lab.roles(program)) for name, program in programs.items()}
    for job in jobs.values():
        assert lab.wait(job)["state"] == "failed"
    failures = {name: lab.failure(job) for name, job in jobs.items()}
    reasons = {name: failure["reason"] for name, failure in failures.items()}
    assert {failure["cause"] for failure in failures.values()} == {"memory"}, reasons
    assert re.search(r"\(limit 128m\): 1[3-9]\d.*m used, killed by the executor", reasons["grows"]), reasons
    # Of a slow machine the executor sees the program grow.
    assert re.search(r"peak \d+.*m, limit 128m|\(limit 128m\): 1\d\d.*m used", reasons["at-once"]), reasons
