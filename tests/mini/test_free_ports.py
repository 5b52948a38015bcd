"""Ports for the daemons of a small cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from tony.mini import free_ports
from tony.mini.free_ports import choose_ports


def test_ports_are_none_that_the_kernel_hands_out() -> None:
    """So that a daemon that comes back finds its own free."""
    first, last = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
    found = choose_ports(["a", "b", "c"])
    assert 3 == len({*found.values()})
    assert not any(first <= port <= last for port in found.values())


def test_a_kernel_that_hides_its_range(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Ports are below Linux's default range then."""
    monkeypatch.setattr(free_ports, "_RANGE", tmp_path / "missing")
    assert 10240 <= choose_ports(["rm"])["rm"] <= 32767
