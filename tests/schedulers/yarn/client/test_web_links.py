"""Where a cluster's own pages show a job and its containers, by what its configuration says."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tony.errors import TonyError
from tony.hadoop.configuration import Configuration
from tony.schedulers.yarn.client.web_links import NodeAddress, list_application_links, list_container_links

JOB, CONTAINER = "application_1_0002", "container_1_0002_01_000003"
RM = {"yarn.resourcemanager.hostname": "rm"}
SECURE = {"yarn.http.policy": "HTTPS_ONLY"}
HA = {
    "yarn.resourcemanager.ha.enabled": "true",
    "yarn.resourcemanager.ha.rm-ids": "rm1,rm2",
    "yarn.resourcemanager.hostname.rm1": "h1",
    "yarn.resourcemanager.hostname.rm2": "h2",
    "yarn.resourcemanager.webapp.address.rm2": "h2:99",
    "yarn.resourcemanager.webapp.https.address.rm1": "h1:443",
}
TIMELINE = {"yarn.timeline-service.enabled": "true", "yarn.timeline-service.hostname": "ts"}
APP, PROXY, OWN = f"cluster/app/{JOB}", f"proxy/{JOB}/", "the job's own pages"


@pytest.mark.parametrize(
    ("said", "ended", "links"),
    [
        (RM, True, {"ResourceManager": f"http://rm:8088/{APP}"}),
        (RM, False, {"ResourceManager": f"http://rm:8088/{APP}", OWN: f"http://rm:8088/{PROXY}"}),
        (RM | SECURE, False, {"ResourceManager": f"https://rm:8090/{APP}", OWN: f"https://rm:8090/{PROXY}"}),
        (
            RM | {"yarn.resourcemanager.webapp.address": "pages:80"},
            True,
            {"ResourceManager": f"http://pages:80/{APP}"},
        ),
        (
            RM | SECURE | {"yarn.resourcemanager.webapp.https.address": "${yarn.resourcemanager.hostname}:443"},
            True,
            {"ResourceManager": f"https://rm:443/{APP}"},
        ),
        (
            RM | {"yarn.web-proxy.address": "proxy:9046"},
            False,
            {"ResourceManager": f"http://rm:8088/{APP}", OWN: f"http://proxy:9046/{PROXY}"},
        ),
        (
            HA,
            False,
            {
                "ResourceManager rm1": f"http://h1:8088/{APP}",
                "ResourceManager rm2": f"http://h2:99/{APP}",
                f"{OWN}, by rm1": f"http://h1:8088/{PROXY}",
                f"{OWN}, by rm2": f"http://h2:99/{PROXY}",
            },
        ),
        (
            HA | SECURE,
            True,
            {"ResourceManager rm1": f"https://h1:443/{APP}", "ResourceManager rm2": f"https://h2:8090/{APP}"},
        ),
        (
            RM | TIMELINE,
            True,
            {
                "ResourceManager": f"http://rm:8088/{APP}",
                "timeline server": f"http://ts:8188/applicationhistory/app/{JOB}",
            },
        ),
        (
            RM | TIMELINE | SECURE,
            True,
            {
                "ResourceManager": f"https://rm:8090/{APP}",
                "timeline server": f"https://ts:8190/applicationhistory/app/{JOB}",
            },
        ),
        (
            RM
            | TIMELINE
            | {"yarn.timeline-service.version": "2.0f", "yarn.timeline-service.reader.webapp.address": "reader:1"},
            True,
            {
                "ResourceManager": f"http://rm:8088/{APP}",
                "timeline server": f"http://reader:1/ws/v2/timeline/apps/{JOB}",
            },
        ),
        (
            RM | TIMELINE | {"yarn.timeline-service.versions": "1.5f,2.0f"},
            True,
            {
                "ResourceManager": f"http://rm:8088/{APP}",
                "timeline server": f"http://ts:8188/applicationhistory/app/{JOB}",
            },
        ),
        (
            RM
            | {
                "yarn.timeline-service.generic-application-history.enabled": "true",
                "yarn.timeline-service.webapp.address": "ahs:7",
            },
            True,
            {
                "ResourceManager": f"http://rm:8088/{APP}",
                "timeline server": f"http://ahs:7/applicationhistory/app/{JOB}",
            },
        ),
        # No address is configured: the default works only for a browser on that machine.
        ({}, False, {}),
        (
            RM | {"yarn.timeline-service.enabled": "true", "yarn.timeline-service.webapp.address": "0.0.0.0:8188"},
            True,
            {"ResourceManager": f"http://rm:8088/{APP}"},
        ),
    ],
)
def test_pages_of_an_application(said: Mapping[str, str], ended: bool, links: Mapping[str, str]) -> None:
    """Each ResourceManager's, the timeline server's if there is one, and the running job's behind a proxy."""
    found = list_application_links(Configuration.load(given=said), JOB, ended=ended)
    assert links == {link.label: link.href for link in found}


def test_an_incomplete_configuration() -> None:
    with pytest.raises(TonyError, match=r"ha\.rm-ids"):
        list_application_links(Configuration.load(given={"yarn.resourcemanager.ha.enabled": "true"}), JOB, ended=True)


NODE = NodeAddress(host="n1", port=45454, web="n1:8042")
PATH = f"node/containerlogs/{CONTAINER}/ann"
SERVER = {"yarn.log.server.url": "https://history:19890/jobhistory/logs/"}
AT_SERVER = f"https://history:19890/jobhistory/logs/n1:45454/{CONTAINER}/{CONTAINER}/ann"


@pytest.mark.parametrize(
    ("said", "node", "ended", "links"),
    [
        ({}, NODE, False, {"NodeManager": f"http://n1:8042/{PATH}"}),
        (SECURE, NodeAddress(host="n1", web="n1:8044"), False, {"NodeManager": f"https://n1:8044/{PATH}"}),
        # The ResourceManager does not say where it is: then the configuration does.
        ({}, NodeAddress(host="n1"), False, {"NodeManager": f"http://n1:8042/{PATH}"}),
        (SECURE, NodeAddress(host="n1"), False, {"NodeManager": f"https://n1:8044/{PATH}"}),
        (
            {"yarn.nodemanager.webapp.address": "0.0.0.0:99"},
            NodeAddress(host="n1"),
            False,
            {"NodeManager": f"http://n1:99/{PATH}"},
        ),
        ({"yarn.nodemanager.webapp.address": "n1:0"}, NodeAddress(host="n1"), False, {}),
        ({}, NodeAddress(host=""), False, {}),
        (SERVER, NODE, False, {"NodeManager": f"http://n1:8042/{PATH}", "log server": AT_SERVER}),
        (SERVER, NODE, True, {"log server": AT_SERVER}),
        ({}, NODE, True, {}),
        ({"yarn.log.server.url": "javascript:alert(1)"}, NODE, True, {}),
        # The host had several nodes; which one it was is unknown.
        (SERVER, NodeAddress(host="n1"), True, {}),
    ],
)
def test_pages_of_a_container(
    said: Mapping[str, str], node: NodeAddress, ended: bool, links: Mapping[str, str]
) -> None:
    """Its node's, as long as its application lives; and those of the server that shows aggregated logs."""
    found = list_container_links(Configuration.load(given=said), CONTAINER, node, "ann", ended=ended)
    assert links == {link.label: link.href for link in found}


def test_a_users_name_is_quoted() -> None:
    """It comes from a file system."""
    (link,) = list_container_links(Configuration.load(), CONTAINER, NODE, 'a/"b', ended=False)
    assert link.href.endswith(f"{CONTAINER}/a%2F%22b")
