"""`tony local-submit`, the original's LocalSubmitter."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tony.cli.legacy_commands import RawCommand, run

if TYPE_CHECKING:
    from tony.config.legacy.flags import Flags

#: As the original's has.
_NODES = 2


@click.command("local-submit", cls=RawCommand, add_help_option=False)
def command(words: tuple[str, ...]) -> int:
    """Run a LinkedIn TonY job on a small cluster of its own.

    The cluster has two nodes, is started for this job and ended with it; one of `tony mini` is left alone. Exit code: 0
    the job succeeded, 255 anything else. Ctrl-C, SIGTERM and a closed terminal end all of it.
    """
    about = (
        "Starts a small cluster of two nodes, runs a job of the original on it, and ends it.\n"
        "Answers 0 if the job succeeded, else 255."
    )
    return run("local-submit", about, words, _go)


def _go(flags: Flags) -> int:
    import os

    from tony.cli.output import warn
    from tony.cli.submission import SubmitOptions, ending_in_order, submit_and_follow
    from tony.config.legacy.job_loader import load
    from tony.mini.ephemeral_cluster import run_ephemeral_cluster
    from tony.mini.options import MiniOptions

    overrides = {"scheduler": "yarn"}
    load(flags, overrides=overrides)  # mistakes are told before anything is started
    with ending_in_order(), run_ephemeral_cluster(MiniOptions(nodes=_NODES), os.environ, warn) as cluster:
        warn(f"a cluster of {_NODES} nodes runs for this job")
        os.environ["HADOOP_CONF_DIR"] = str(cluster.conf)
        resolved = load(flags, sets=[f"scheduler.yarn.conf={cluster.conf}"], overrides=overrides)
        return submit_and_follow(resolved, SubmitOptions(detach=False, dry_run=False, as_json=False), tied=True)
