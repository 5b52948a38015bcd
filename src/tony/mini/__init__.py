"""A real Hadoop on one machine, as processes of the user: for trying out, and for tests.

NameNode, DataNodes, ResourceManager and NodeManagers run as separate daemons, so that any of them can be killed and
started again. `tony mini` is its command line; everything of it lies in `mini/` of the user's home.

    cluster              the door: started, looked at, harmed, mended, ended
    ephemeral_cluster    one that never outlives whoever wanted it
    options, state, places   what it is to be, what runs, where everything lies
    daemons, sites           the daemons' command lines and settings
    java, artifacts          what has to be on the machine: Java, Hadoop's archives
    ports, preparing         what is chosen and written before the start
    processes, readiness     started and ended; whether it can be used
    initial_setup        what HDFS and YARN have to be told then
    kill_applications    applications that still run when the cluster is to end
    hadoop_command       what nodes find as `hadoop`
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
