"""A small cluster that never outlives the process that started it: in its own folder, stopped by a guard process.

The guard waits for the end of its standard input, which the kernel closes however the parent ends.
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

from tony.errors import TonyError
from tony.isolated_interpreter import command
from tony.mini.cluster import MiniCluster
from tony.mini.options import MiniOptions
from tony.model.layout import Home

#: Seconds to wait for the guard to stop the cluster.
_STOP_SECONDS = 60.0


@contextmanager
def run_ephemeral_cluster(
    options: MiniOptions, environment: Mapping[str, str], notice: Callable[[str], None]
) -> Iterator[MiniCluster]:
    """Start a cluster, and stop it at the end of the block, however that ends; leaves no files.

    Raises:
        UserError: Java or Maven are missing.
        InfraError: a daemon died or is not ready in time; says which, with the end of its log.
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
            guard.wait(_STOP_SECONDS)


def main() -> int:
    """Wait for the end of standard input, then stop the cluster in the folder `sys.argv[1]` and remove the folder."""
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
