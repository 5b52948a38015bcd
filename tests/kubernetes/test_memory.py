"""Programs that use more memory than their task has."""

from __future__ import annotations

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
    for name, program in {"grows": GROWS, "at-once": AT_ONCE}.items():
        lab.file(f"{name}.py", program)
    jobs = {
        name: lab.detach(
            lab.job(f'command = "python3 {name}.py"\n[roles.worker]\n', {}, f"{name}.toml"), "--source", "."
        )
        for name in ("grows", "at-once")
    }
    reasons = {}
    for name, job in jobs.items():
        assert lab.wait(job)["state"] == "failed"
        failure = lab.failure(job)
        reasons[name] = failure["reason"]
        assert failure["class"] == "memory", failure
        assert "137" not in failure["reason"]
    assert reasons == {}
