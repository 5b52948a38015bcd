"""The watchdog by itself: what it does when its pipe ends."""

import subprocess
from pathlib import Path

import pytest

from tony.bootstrap import command


@pytest.mark.parametrize("farewell", [b"bye\n", b""])
def test_control_group_is_removed_whether_or_not_the_executor_lived(tmp_path: Path, farewell: bytes) -> None:
    """Its maker, the application master, may have been killed: nobody else would remove it."""
    groups = [tmp_path / "memory" / "tony" / "c-1", tmp_path / "cpu" / "tony" / "c-1"]
    for group in groups:
        group.mkdir(parents=True)
    subprocess.run(
        command("tony.executor.watchdog", f"TONY_TASK={tmp_path}/c-1/", *map(str, groups)),
        input=farewell,
        check=True,
        timeout=60,
    )
    assert list(tmp_path.glob("*/tony")) == []
