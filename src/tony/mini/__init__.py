"""A real Hadoop on one machine, as processes of the user: for trying out, and for tests.

NameNode, DataNodes, ResourceManager and NodeManagers run as separate daemons, so that any of them can be killed and
restarted. `tony mini` is its command line; all files are in `mini/` of the state directory (`layout`).

`cluster` starts, inspects and stops it, and can tie it to the process that started it. Before the start `software`
provides Java and Hadoop, and `cluster_files` writes the configuration; afterwards `daemon_requests` waits, creates
folders and assigns node labels.

`kubernetes` is the same for a small Kubernetes.
"""

from __future__ import annotations

from pathlib import Path

from tony.mini.layout import ClusterLayout
from tony.model.state_directory import Home

#: Property that marks the configuration of such a cluster.
PROPERTY = "tony.mini"


def conf_dir(home: Home) -> Path | None:
    """Return the configuration folder of the cluster running in a state directory; None if there is none.

    Reads files and the process table, in a millisecond; sends no request to the cluster.
    """
    places = ClusterLayout(home.mini)
    if not places.state.exists():  # nearly always: nothing more is imported then
        return None
    from tony.mini.cluster_state import load  # late: there is hardly ever such a cluster

    state = load(places)
    return places.conf if state is not None and state.ready and state.find_running() else None
