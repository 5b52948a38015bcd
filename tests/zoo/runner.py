"""Run the failure zoo: `python -m tests.zoo.runner [--yarn] [--jobs N] [--keep FOLDER] [NAME ...]`."""

from __future__ import annotations

import argparse
import os
import resource
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager, nullcontext
from pathlib import Path

from tests import mini_clusters
from tests.zoo.case_run import CaseResult, run_case
from tests.zoo.figures import format_figures
from tests.zoo.labelled_case import CASES, ZooCase, is_possible, load_cases

RESULTS = Path(__file__).parent / "results.md"
RESULTS_ON_YARN = Path(__file__).parent / "results-on-yarn.md"
#: Sets of cases by folder, with their titles.
_SETS = (
    (CASES, "The first cases"),
    (CASES / "later", "Cases written after the rules"),
    (CASES / "unseen", "Cases written without a look at the rules"),
    (CASES / "reported", "Errors as users report them"),
)


def main() -> int:
    """Run the cases, print the figures; return 1 if something is wrong that is not explained."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--jobs", type=int, default=2 * (os.cpu_count() or 1), help="cases at a time: most wait for something"
    )
    parser.add_argument("--keep", type=Path, help="keep the folders of the cases here")
    parser.add_argument("--yarn", action="store_true", help="the cases marked `yarn`, on a small Hadoop cluster")
    parser.add_argument("names", nargs="*", help="only cases whose names begin so; without, the results are written")
    chosen = parser.parse_args()
    start = time.monotonic()
    text: list[str] = []
    unexplained = 0
    with _start_cluster() if chosen.yarn else nullcontext() as hadoop_conf:
        for folder, title in _SETS:
            cases = [case for case in load_cases(folder) if case.yarn or not chosen.yarn]
            cases = [case for case in cases if not chosen.names or case.name.startswith(tuple(chosen.names))]
            left_out = [case.name for case in cases if not is_possible(case.needs)]
            possible = [case for case in cases if case.name not in left_out]
            results = run_cases(possible, chosen.jobs, chosen.keep, hadoop_conf)
            if results:
                text += ["", *format_figures(results, title)]
            if left_out:
                text += ["", f"Not run, because this machine lacks something: {', '.join(left_out)}."]
            unexplained += sum(bool(result.list_wrong()) and not result.case.reason_wrong for result in results)
    print("\n".join(text))
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"\n{time.monotonic() - start:.0f} s, {used.ru_utime + used.ru_stime:.0f} s of processors")
    if not chosen.names:
        written, target = (RESULTS_ON_YARN, "zoo-on-yarn") if chosen.yarn else (RESULTS, "zoo")
        heading = ["# Results of the failure zoo", "", f"Written by `make {target}`."]
        written.write_text("\n".join([*heading, *text]) + "\n")
    return 1 if unexplained else 0


@contextmanager
def _start_cluster() -> Iterator[Path]:
    """Start a small Hadoop cluster, yield the folder with its configuration, and stop it."""
    running = mini_clusters.Running(mini_clusters.options(), mini_clusters.QuickCluster)
    try:
        yield running.cluster.conf
    finally:
        running.stop()


def run_cases(cases: Sequence[ZooCase], jobs: int, keep: Path | None, hadoop_conf: Path | None) -> list[CaseResult]:
    """Run cases at the same time, the heavy ones first, and print a line for each."""
    results = []
    with ThreadPoolExecutor(jobs) as pool:
        order = sorted(cases, key=lambda case: -case.weight)
        for future in as_completed([pool.submit(run_case, case, keep, hadoop_conf) for case in order]):
            result = future.result()
            results.append(result)
            wrong = "; ".join(result.list_wrong())
            print(f"{result.seconds:6.1f} s  {result.case.name}  {wrong[:200]}".rstrip(), file=sys.stderr, flush=True)
    return results


if __name__ == "__main__":
    sys.exit(main())
