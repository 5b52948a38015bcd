"""A small cluster that never outlives whoever wanted it: in a folder of its own, ended by a process that watches.

That process waits for the end of its standard input: the kernel brings that about however its parent ends.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tony.bootstrap import command
from tony.errors import TonyError
from tony.mini.cluster import MiniCluster
from tony.mini.options import MiniOptions
from tony.model.layout import Home

#: Seconds that a cluster's end may take before it is left to the process that watches.
_END = 60.0


@contextmanager
def run_ephemeral_cluster(
    options: MiniOptions, environment: Mapping[str, str], notice: Callable[[str], None]
) -> Iterator[MiniCluster]:
    """A cluster that is started here and ended at the end, whatever that is; nothing of it is left.

    Raises:
        UserError: Java or Maven are missing.
        InfraError: a daemon died or is not ready in time; says which, and its last words.
    """
    folder = Path(tempfile.mkdtemp(prefix="tony-local-"))
    guard = subprocess.Popen(
        command("tony.mini.ephemeral_cluster", str(folder)), stdin=subprocess.PIPE, start_new_session=True
    )
    try:
        cluster = MiniCluster(Home(folder), environment)
        cluster.start(options, notice)
        yield cluster
    finally:
        assert guard.stdin is not None
        guard.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            guard.wait(_END)


def main() -> int:
    """Ends the cluster in the folder `sys.argv[1]` once standard input has ended, and removes the folder."""
    folder = Path(sys.argv[1])
    with contextlib.suppress(OSError):
        while os.read(0, 1024):
            pass
    try:
        MiniCluster(Home(folder), os.environ).stop()
    except TonyError as error:
        print(f"tony: {error}", file=sys.stderr)
        return error.exit_code
    shutil.rmtree(folder, ignore_errors=True)
    return 0
