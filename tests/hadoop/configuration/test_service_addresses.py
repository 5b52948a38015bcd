"""Tests of `tony.hadoop.configuration.service_addresses`: which machines a configuration names."""

from __future__ import annotations

import pytest

from tony.hadoop.configuration import Configuration, ConfigurationError
from tony.hadoop.configuration.service_addresses import (
    ServiceAddress,
    build_usual_web_address,
    find_default_file_system,
    find_name_service,
    list_resource_managers,
    list_schedulers,
)


def _settings(**keys: str) -> Configuration:
    return Configuration.load(given={key.replace("__", ".").replace("_", "-"): value for key, value in keys.items()})


def _shown(daemon: ServiceAddress) -> tuple[str, str, str]:
    return daemon.id, str(daemon.address), f"{daemon.web_scheme}://{daemon.web}"


def test_one_resource_manager_by_host_name() -> None:
    settings = _settings(yarn__resourcemanager__hostname="rm")
    assert [("", "rm:8032", "http://rm:8088")] == [_shown(each) for each in list_resource_managers(settings)]
    assert [("", "rm:8030", "http://rm:8088")] == [_shown(each) for each in list_schedulers(settings)]
    assert "yarn.resourcemanager.hostname, given" == list_resource_managers(settings)[0].source


def test_one_resource_manager_by_addresses() -> None:
    """Ports may be left out; pages that listen everywhere are where the daemon is."""
    settings = _settings(yarn__resourcemanager__address="a", yarn__resourcemanager__webapp__address="0.0.0.0:99")
    assert [("", "a:8032", "http://a:99")] == [_shown(each) for each in list_resource_managers(settings)]
    assert "yarn.resourcemanager.address, given" == list_resource_managers(settings)[0].source


def test_nothing_set_is_this_machine() -> None:
    """As Hadoop has it, and the source says that it is a default."""
    (found,) = list_resource_managers(Configuration.load())
    assert ("", "0.0.0.0:8032", "http://0.0.0.0:8088") == _shown(found)
    assert "yarn.resourcemanager.hostname, Hadoop's default (yarn-default.xml)" == found.source


def test_two_resource_managers() -> None:
    """By host or by address each, in the order of the ids; HTTPS if the policy says so."""
    keys = {
        "yarn.resourcemanager.ha.enabled": "true",
        "yarn.resourcemanager.ha.rm-ids": "rm1, rm2",
        "yarn.resourcemanager.hostname.rm1": "h1",
        "yarn.resourcemanager.address.rm2": "h2:1",
        "yarn.resourcemanager.scheduler.address.rm2": "h2:2",
        "yarn.resourcemanager.webapp.https.address.rm2": "h2:3",
        "yarn.http.policy": "HTTPS_ONLY",
    }
    settings = Configuration.load(given=keys)
    found = list_resource_managers(settings)
    assert [("rm1", "h1:8032", "https://h1:8090"), ("rm2", "h2:1", "https://h2:3")] == [_shown(each) for each in found]
    assert ["h1:8030", "h2:2"] == [str(each.address) for each in list_schedulers(settings)]
    assert "rm2 (h2:1)" == str(found[1])


def test_high_availability_without_members_is_an_error() -> None:
    with pytest.raises(ConfigurationError, match=r"ha\.rm-ids \(not set\).*ha\.enabled"):
        list_resource_managers(Configuration.load(given={"yarn.resourcemanager.ha.enabled": "true"}))
    keys = {"yarn.resourcemanager.ha.enabled": "true", "yarn.resourcemanager.ha.rm-ids": "x"}
    with pytest.raises(ConfigurationError, match=r"address\.x \(not set\).*hostname\.x"):
        list_resource_managers(Configuration.load(given=keys))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("hdfs://ns1", "hdfs://ns1"),
        ("hdfs://h:1/", "hdfs://h:1"),
        ("h:1", "hdfs://h:1"),
        ("local", "file://"),
        ("file:///", "file://"),
    ],
)
def test_the_default_file_system(text: str, expected: str) -> None:
    assert expected == find_default_file_system(Configuration.load(given={"fs.default.name": text}))


def test_one_name_node() -> None:
    """The URI is the address; the page comes from where the settings are about the same NameNode."""
    settings = Configuration.load(given={"fs.defaultFS": "hdfs://nn"})
    found = find_name_service(settings)
    assert ("hdfs://nn", False, None) == (found.uri, found.logical, found.service)
    assert [("", "nn:8020", "http://nn:9870")] == [_shown(each) for each in found.name_nodes]
    other = find_name_service(settings, "hdfs://user@other:1/path")
    assert ("hdfs://other:1", "other:1") == (other.uri, str(other.name_nodes[0].address))
    for given in ({"dfs.namenode.rpc-address": "nn"}, {"dfs.namenode.http-address": "nn:50070"}):
        settings = Configuration.load(given={"fs.defaultFS": "hdfs://nn", **given})
        node = find_name_service(settings, "hdfs://other").name_nodes[0]
        assert node.web is None
        assert build_usual_web_address(node) == "http://other:9870"


def test_a_nameservice() -> None:
    """With two NameNodes, or one; tokens of the first kind go by its name."""
    keys = {
        "fs.defaultFS": "hdfs://ns1",
        "dfs.nameservices": "ns1,ns2",
        "dfs.ha.namenodes.ns1": "a,b",
        "dfs.namenode.rpc-address.ns1.a": "h1:8020",
        "dfs.namenode.rpc-address.ns1.b": "h2",
        "dfs.namenode.http-address.ns1.b": "0.0.0.0:5",
        "dfs.namenode.rpc-address.ns2": "h3:7",
    }
    settings = Configuration.load(given=keys)
    found = find_name_service(settings)
    assert ("hdfs://ns1", True, "ha-hdfs:ns1") == (found.uri, found.logical, found.service)
    shown = [_shown(each) for each in found.name_nodes]
    assert [("a", "h1:8020", "http://h1:9870"), ("b", "h2:8020", "http://h2:5")] == shown
    second = find_name_service(settings, "hdfs://ns2/x")
    assert ("hdfs://ns2", False, "h3:7") == (second.uri, second.logical, str(second.name_nodes[0].address))


def test_other_file_systems_are_an_error() -> None:
    """With the key and where it was set."""
    with pytest.raises(ConfigurationError, match=r"fs\.defaultFS = file:/// \(Hadoop's default"):
        find_name_service(Configuration.load())
    keys = {"fs.defaultFS": "hdfs://ns1", "dfs.ha.namenodes.ns1": "a"}
    with pytest.raises(ConfigurationError, match=r"dfs\.namenode\.rpc-address\.ns1\.a \(not set\).*host:port"):
        find_name_service(Configuration.load(given=keys))
