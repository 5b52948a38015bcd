"""Every row, one table: `make bench`. Or some: `python -m bench startup memory`."""

from __future__ import annotations

import argparse
import sys
from importlib import import_module

from bench import machine, results, table
from bench.harness import CannotRunError, Line, Result

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
    "kubernetes",
    "kubernetes_failures",
    "kubernetes_scale",
    "event_log",
    "hdfs_log",
    "portal_index",
    "advice",
    "job_page",
    "crowded_portal",
)


def main() -> int:
    """Measure rows one after the other, print one table, and keep the measurements.

    Returns:
        The exit code: 0 also when a target is missed or a row cannot run here. A bench informs, it does not judge.
    """
    parser = argparse.ArgumentParser(prog="bench", description="What tony costs. See bench/__init__.py.")
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"all, or some of {', '.join(ROWS)}")
    parser.add_argument("--quick", action="store_true", help="a tiny sample, to see that it runs; nothing is kept")
    parser.add_argument("--dry", action="store_true", help="keep nothing in bench/results.md")
    options = parser.parse_args()
    if unknown := set(options.rows) - set(ROWS):
        parser.error(f"no such row: {', '.join(sorted(unknown))}; there are {', '.join(ROWS)}")
    print(machine.size(), flush=True)
    done = {
        row: _measure(row, quick=options.quick, keep=not (options.quick or options.dry)) for row in options.rows or ROWS
    }
    print(table.format_table([line for result in done.values() for line in result.lines]))
    for row, result in done.items():
        for note in result.notes:
            print(f"{row}: {note}")
    return 0


def _measure(row: str, *, quick: bool, keep: bool) -> Result:
    module = import_module(f"bench.{row}")
    load = machine.load()
    print(f"{row}: {module.TITLE} (load {load})", file=sys.stderr, flush=True)
    try:
        result: Result = module.measure(quick)
    except CannotRunError as reason:
        print(f"{row} was not measured: {reason}", file=sys.stderr, flush=True)
        return Result(lines=(Line.missing(module.TITLE, str(reason)),))
    if keep:
        results.keep(row, module.TITLE, result, machine=f"{machine.size()}, load {load} at its start")
    return result


if __name__ == "__main__":
    sys.exit(main())
