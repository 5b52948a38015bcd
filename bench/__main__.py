"""Every row, one table: `make bench`. Or some: `python -m bench startup memory`."""

from __future__ import annotations

import sys
from importlib import import_module

from bench.harness import Bench, run_all

#: In the order of the table. Each is a file in this folder.
ROWS = (
    "startup",
    "memory",
    "sampling",
    "measured",
    "core",
    "command_line",
    "staging",
    "following",
    "output",
    "many_jobs",
    "many_tasks",
    "executors",
    "listing",
    "yarn",
    "yarn_launch",
    "lost_worker",
    "lost_master",
    "lost_executors",
    "yarn_failures",
    "event_log",
    "hdfs_log",
    "portal_index",
    "advice",
    "job_page",
    "crowded_portal",
)


def load(name: str) -> Bench:
    """The bench of one row."""
    bench = import_module(f"bench.{name}").BENCH
    assert isinstance(bench, Bench)
    return bench


def main() -> int:
    """The command line."""
    words = sys.argv[1:]
    wanted = [word for word in words if not word.startswith("-")]
    unknown = [word for word in wanted if word not in ROWS]
    if unknown:
        print(f"no such row: {', '.join(unknown)}; there are {', '.join(ROWS)}", file=sys.stderr)
        return 2
    return run_all([load(name) for name in wanted or ROWS], [word for word in words if word.startswith("-")])


if __name__ == "__main__":
    sys.exit(main())
