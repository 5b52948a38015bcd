"""The configuration says what it has to say, in the files in which Hadoop looks for it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tony.errors import UserError
from tony.mini import PROPERTY
from tony.mini.cluster_files import file_of, hosts, render
from tony.mini.cluster_state import ClusterState
from tony.mini.daemons import MiniDaemon, command, list_daemons, parse
from tony.mini.layout import ClusterLayout
from tony.mini.options import HadoopProperty, Label, MiniOptions

PLACES = ClusterLayout(Path("/home/me/.tony/mini"))


def state_of(options: MiniOptions) -> ClusterState:
    names = [port for daemon in list_daemons(options.nodes, options.datanodes) for port in daemon.ports]
    numbers = {name: 1000 + number for number, name in enumerate(names)}
    return ClusterState(options=options, java="/java", jars="/jars", path="/bin", ports=numbers)


def read(text: str) -> dict[str, str]:
    return {
        prop.findtext("name", ""): prop.findtext("value", "")
        for prop in ElementTree.fromstring(text.encode()).iter("property")
    }


def files(
    *settings: str, labels: tuple[str, ...] = (), nodes: int = 2, datanodes: int = 1
) -> dict[str, dict[str, str]]:
    """Path -> properties."""
    options = MiniOptions(
        nodes=nodes,
        datanodes=datanodes,
        settings=tuple(map(HadoopProperty.read, settings)),
        labels=tuple(map(Label.read, labels)),
    )
    texts = render(state_of(options), PLACES, "me")
    return {name: read(text) for name, text in texts.items() if name.endswith(".xml")}


@pytest.mark.parametrize(
    ("key", "file"),
    [
        ("fs.defaultFS", "core-site.xml"),
        ("ipc.ping.interval", "core-site.xml"),
        ("dfs.replication", "hdfs-site.xml"),
        ("yarn.resourcemanager.nodes", "yarn-site.xml"),
        ("yarn.scheduler.minimum-allocation-mb", "yarn-site.xml"),
        ("yarn.scheduler.capacity.root.queues", "capacity-scheduler.xml"),
        ("yarn.resource-types", "resource-types.xml"),
        ("yarn.resource-types.yarn.io/gpu.units", "resource-types.xml"),
        ("yarn.nodemanager.resource-type.yarn.io/gpu", "node-resources.xml"),
        ("mapreduce.framework.name", "mapred-site.xml"),
    ],
)
def test_where_a_setting_belongs(key: str, file: str) -> None:
    assert file == file_of(key)
    assert "a < b & c" == files(f"{key}=a < b & c")[f"conf/{file}"][key]


def test_a_mini_cluster_is_marked_in_its_configuration() -> None:
    """The message for an unreachable cluster says how to start it."""
    assert "true" == files()["conf/core-site.xml"][PROPERTY]


def test_each_node_has_its_own() -> None:
    """Address, folders and ports; clients see none of them."""
    found = files()
    first, second = found["nm1/conf/yarn-site.xml"], found["nm2/conf/yarn-site.xml"]
    assert ("127.0.1.1", "127.0.1.2") == (first["yarn.nodemanager.hostname"], second["yarn.nodemanager.hostname"])
    assert "/home/me/.tony/mini/nm2/local" == second["yarn.nodemanager.local-dirs"]
    assert first["yarn.nodemanager.address"] != second["yarn.nodemanager.address"]
    assert "yarn.nodemanager.hostname" not in found["conf/yarn-site.xml"]
    assert found["conf/yarn-site.xml"].items() <= first.items()


def test_a_setting_of_one_node() -> None:
    """And of one DataNode; it overrules what holds for all."""
    key = "yarn.nodemanager.resource.memory-mb"
    found = files(f"{key}=1024", f"nm2:{key}=512", "dn2:dfs.datanode.du.reserved=7", datanodes=2)
    assert ["1024", "1024", "512"] == [
        found[name][key] for name in ("conf/yarn-site.xml", "nm1/conf/yarn-site.xml", "nm2/conf/yarn-site.xml")
    ]
    reserved = [found[f"dn{n}/conf/hdfs-site.xml"]["dfs.datanode.du.reserved"] for n in (1, 2)]
    assert ["0", "7"] == reserved
    gpus = files("nm1:yarn.nodemanager.resource-type.yarn.io/gpu=2")
    assert {"yarn.nodemanager.resource-type.yarn.io/gpu": "2"} == gpus["nm1/conf/node-resources.xml"]
    assert "nm2/conf/node-resources.xml" not in gpus


def test_a_file_is_closed_soon() -> None:
    """DataNodes write for WebHDFS; by default they wait 400 ms before they ask again whether a file is complete."""
    key = "dfs.client.block.write.locateFollowingBlock.initial.delay.ms"
    assert "20" == files()["dn1/conf/hdfs-site.xml"][key]
    assert "400" == files(f"{key}=400")["dn1/conf/hdfs-site.xml"][key]


def test_labels_reach_every_queue() -> None:
    """With the share that it has of other nodes; what a person says of it holds."""
    root = "yarn.scheduler.capacity.root"
    found = files(
        f"{root}.queues=a, b",
        f"{root}.a.capacity=70",
        f"{root}.b.capacity=30",
        f"{root}.b.accessible-node-labels=other",
        labels=("gpu=nm1",),
    )
    capacity = found["conf/capacity-scheduler.xml"]
    assert "100" == capacity[f"{root}.accessible-node-labels.gpu.capacity"]
    assert ("70", "30") == tuple(capacity[f"{root}.{queue}.accessible-node-labels.gpu.capacity"] for queue in "ab")
    assert ("*", "other") == tuple(capacity[f"{root}.{queue}.accessible-node-labels"] for queue in "ab")
    assert "true" == found["conf/yarn-site.xml"]["yarn.node-labels.enabled"]


def test_all_addresses_are_loopback() -> None:
    for properties in files(datanodes=2).values():
        for key, value in properties.items():
            if key.endswith("address") or key.endswith("hostname"):
                assert value.startswith("127."), key


def test_hosts() -> None:
    lines = hosts(state_of(MiniOptions(nodes=1)), "box").splitlines()
    assert ["127.0.0.1 localhost", "127.0.0.1 box", "127.0.1.1 127.0.1.1"] == lines


def test_a_nodes_own_folder_is_first_on_the_class_path() -> None:
    """HDFS needs its pages' folder as well."""
    line = command(MiniDaemon("nm2"), Path("/java"), Path("/jars"), PLACES)
    path = line[line.index("-cp") + 1]
    assert "/home/me/.tony/mini/nm2/conf:/home/me/.tony/mini/conf:/jars/*" == path
    line = command(MiniDaemon("nn"), Path("/java"), Path("/jars"), PLACES, "-format")
    assert line[line.index("-cp") + 1].startswith("/home/me/.tony/mini/web:")
    assert "-format" == line[-1]


def test_additional_daemons() -> None:
    """As a pair of ResourceManagers needs them: named, with settings of their own, found first on their class path."""
    own = HadoopProperty(key="yarn.resourcemanager.ha.id", value="rm2", daemon="rm2")
    state = replace(state_of(MiniOptions(nodes=1, settings=(own,))), others=("rm2",))
    assert ["rm2", "nn", "rm", "dn1", "nm1"] == [daemon.name for daemon in state.daemons]
    texts = render(state, PLACES, "me")
    assert "rm2" == read(texts["rm2/conf/yarn-site.xml"])[own.key]
    assert own.key not in read(texts["conf/yarn-site.xml"])
    line = command(MiniDaemon("rm2"), Path("/java"), Path("/jars"), PLACES)
    assert line[line.index("-cp") + 1].startswith("/home/me/.tony/mini/rm2/conf:")
    assert MiniDaemon("rm2") == parse("rm2", 1, 1, state.daemons)
    with pytest.raises(UserError, match=r"has nn, rm, dn1, nm1$"):
        parse("rm2", 1, 1)


@pytest.mark.parametrize("text", ["", "key", "=value", "nm0:a=b", "rm:a=b", "a b=c"])
def test_no_setting(text: str) -> None:
    with pytest.raises(UserError, match="write KEY=VALUE"):
        HadoopProperty.read(text)


@pytest.mark.parametrize("text", ["", "gpu", "gpu=", "gpu=rm", "gpu=nm1,", "=nm1"])
def test_no_label(text: str) -> None:
    with pytest.raises(UserError, match="write LABEL=nm1"):
        Label.read(text)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (MiniOptions(hadoop="3.4"), "--hadoop 3.4: expected a release such as 3.4.2"),
        (MiniOptions(nodes=0), "--nodes 0: expected a number from 1 to 254"),
        (MiniOptions(datanodes=-1), "--datanodes -1: expected a number from 1 to 254"),
        (MiniOptions(settings=(HadoopProperty.read("nm4:a=b"),)), "--set nm4:a: this cluster has no nm4"),
        (MiniOptions(labels=(Label.read("gpu=nm4"),)), "--label gpu: this cluster has no nm4"),
        (MiniOptions(labels=(Label.read("a=nm1"), Label.read("b=nm1"))), "--label: Hadoop allows one label per node"),
    ],
)
def test_options_that_make_no_sense(options: MiniOptions, message: str) -> None:
    with pytest.raises(UserError) as caught:
        options.check()
    assert str(caught.value).startswith(message)


def test_names_of_daemons() -> None:
    """`dn` and `nm` serve where there is one."""
    assert MiniDaemon("dn1") == parse("dn", 2, 1)
    for text in ("nm", "nm3", "jt", "", "nn1", "nm01"):
        with pytest.raises(UserError, match="this cluster has nn, rm, dn1, nm1, nm2"):
            parse(text, 2, 1)
