"""`tony local-submit`: LocalSubmitter of LinkedIn TonY."""

from __future__ import annotations

import os

from tony.cli.legacy_command_runner import legacy_command
from tony.cli.submission import submit_and_follow
from tony.cli.submission_signals import clean_exit_on_signals
from tony.cli.terminal.output import warn
from tony.config.legacy import CLUSTER_CONF, TO_CLUSTER
from tony.config.legacy.flags import Flags
from tony.config.load import load
from tony.mini.ephemeral_cluster import run_ephemeral_cluster
from tony.mini.options import MiniOptions

#: As many as the cluster of LinkedIn TonY's LocalSubmitter.
_NODE_COUNT = 2


@legacy_command("local-submit")
def command(flags: Flags) -> int:
    """Run a LinkedIn TonY job on a small cluster of its own.

    The cluster has two nodes, starts with the job and stops with it; it is not the one of `tony mini`. Exit code: 0 the
    job succeeded, 255 anything else. Ctrl-C, SIGTERM and a closed terminal stop the job and the cluster.
    """
    load(flags=flags, overrides=TO_CLUSTER)  # reports errors before anything is started
    with clean_exit_on_signals(), run_ephemeral_cluster(MiniOptions(nodes=_NODE_COUNT), os.environ, warn) as cluster:
        warn(f"started a cluster of {_NODE_COUNT} nodes for this job")
        os.environ["HADOOP_CONF_DIR"] = str(cluster.conf)
        resolved = load(flags=flags, sets=[f"{CLUSTER_CONF}={cluster.conf}"], overrides=TO_CLUSTER)
        return submit_and_follow(resolved, tied=True)
