"""A real Hadoop on one machine, as processes of the user: for trying out, and for tests.

NameNode, DataNodes, ResourceManager and NodeManagers run as separate daemons, so that any of them can be killed and
started again. `tony mini` is its command line; all files are in `mini/` of the state directory (`layout`).

`cluster` starts, inspects and stops it; `ephemeral_cluster` is one that ends with the process that wanted it. Before
the start `hadoop_download` and `java` provide the software, `ports`, `site_xml` and `disk_setup` write the
configuration; afterwards `readiness` waits and `initial_setup` creates folders and queues.
"""

from __future__ import annotations

from pathlib import Path

from tony.model.layout import Home

#: A property by which the configuration of such a cluster is known.
PROPERTY = "tony.mini"


def conf_dir(home: Home) -> Path | None:
    """The configuration folder of the cluster that runs in a home; None if none does.

    Answers from files and the process table, in a millisecond: the cluster itself is not asked.
    """
    from tony.mini.layout import Places

    places = Places(home.mini)
    if not places.state.exists():  # nearly always: nothing more is imported then
        return None
    from tony.mini.cluster_state import load

    state = load(places)
    return places.conf if state is not None and state.ready and state.living() else None
