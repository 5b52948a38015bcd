"""Who sits at another machine is told how to come to a port of this one; who sits here is not."""

from __future__ import annotations

import pytest

from tony.cli.terminal.display import format_ssh_hint


@pytest.mark.parametrize(
    ("environment", "told"),
    [
        ({}, ["ssh -N -L 8888:127.0.0.1:8888 "]),
        ({"DISPLAY": ":0"}, []),
        ({"WAYLAND_DISPLAY": "wayland-0"}, []),
        ({"DISPLAY": "localhost:10.0", "SSH_CONNECTION": "10.0.0.2 50000 10.0.0.1 22"}, ["8888:127.0.0.1:8888 "]),
        ({"SSH_CONNECTION": "10.0.0.2 50000 10.0.0.1 2222"}, ["ssh -N -L 8888:127.0.0.1:8888 -p 2222 "]),
        ({"SSH_CONNECTION": "nonsense"}, ["ssh -N -L 8888:127.0.0.1:8888 "]),
    ],
)
def test_the_hint_for_another_machine(environment: dict[str, str], told: list[str]) -> None:
    """One line for each address, with the port of the SSH connection."""
    lines = format_ssh_hint("127.0.0.1:8888", environment)
    assert len(lines) == len(told)
    for line, part in zip(lines, told, strict=True):
        assert line.startswith("from another machine: ")
        assert part in line
        assert "@" in line.split()[-1]
