"""The family of a program is ended by every handle there is."""

import asyncio
from pathlib import Path

from tony.executor.family import Family


def test_control_group_is_killed_in_one_stroke_where_the_kernel_can(tmp_path: Path) -> None:
    """Members that fork and exit all the time would outrun signals to single processes."""
    nobody = 2**22 + 1  # more than any pid
    (tmp_path / "cgroup.procs").write_text(f"{nobody}\n")
    (tmp_path / "cgroup.kill").write_text("")
    family = Family(f"TONY_TASK={tmp_path}", [str(tmp_path)], lambda: 0)
    assert asyncio.run(family.end(patience=0.01)) == [nobody]
    assert (tmp_path / "cgroup.kill").read_text() == "1"
