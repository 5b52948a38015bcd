"""Links to Hadoop's web pages of a job, from the cluster's configuration, including HTTPS and high availability.

    http://rm:8088/cluster/app/{application}                             each ResourceManager; a standby one redirects
                                                                         browsers to the active one
    http://rm:8088/proxy/{application}/                                  the running job's own pages
    http://timeline:8188/applicationhistory/app/{application}            timeline server of versions 1 and 1.5
    http://reader:8188/ws/v2/timeline/apps/{application}                 reader of version 2, which has no web pages
    http://node:8042/node/containerlogs/{container}/{user}               NodeManager, while the application runs
    {yarn.log.server.url}/{node}/{container}/{container}/{user}          history server, once the logs are aggregated

Pure but for reading the configuration. Addresses that other machines cannot reach, such as 0.0.0.0, are left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, urlsplit

from tony.address import Address
from tony.hadoop.configuration import Configuration
from tony.hadoop.configuration.service_addresses import list_resource_managers
from tony.model.web_link import WebLink

_TIMELINE: Final = "yarn.timeline-service"
_ANYWHERE: Final = ("0.0.0.0", "::")


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAddress:
    """A NodeManager, as far as it is known.

    Attributes:
        host, port: from its id; port 0 if unknown.
        web: host:port of its web server; empty for the configured one.
    """

    host: str
    port: int = 0
    web: str = ""


def list_application_links(settings: Configuration, application: str, *, ended: bool) -> tuple[WebLink, ...]:
    """Return links to the pages of a job.

    Args:
        ended: the job has ended, so its own pages no longer exist.

    Raises:
        ConfigurationError: the configuration names no ResourceManager.
    """
    return tuple(_iterate_application_links(settings, application, ended))


def _iterate_application_links(settings: Configuration, application: str, ended: bool) -> Iterator[WebLink]:
    daemons = [manager for manager in list_resource_managers(settings) if _is_reachable(manager.web)]
    for daemon in daemons:
        label = f"ResourceManager {daemon.id}".rstrip()
        yield WebLink(label=label, href=f"{daemon.web_scheme}://{daemon.web}/cluster/app/{application}")
    if not ended:
        proxy = settings.get_address("yarn.web-proxy.address", 0)
        if proxy and proxy.port and _is_reachable(proxy):
            yield WebLink(label="the job's own pages", href=f"{_find_scheme(settings)}://{proxy}/proxy/{application}/")
        else:
            for daemon in daemons:
                label = f"the job's own pages{daemon.id and f', by {daemon.id}'}"
                yield WebLink(label=label, href=f"{daemon.web_scheme}://{daemon.web}/proxy/{application}/")
    timeline = _timeline(settings, application)
    if timeline:
        yield WebLink(label="timeline server", href=timeline)


def list_container_links(
    settings: Configuration, container: str, node: NodeAddress, user: str, *, ended: bool
) -> tuple[WebLink, ...]:
    """Return links to the logs of a container.

    Args:
        user: owner of the application.
        ended: the application has ended, so its nodes no longer show its logs.
    """
    name = quote(user, safe="")
    found: list[WebLink] = []
    web = node.web or _find_default_web(settings, node.host)
    if not ended and web:
        href = f"{_find_scheme(settings)}://{web}/node/containerlogs/{container}/{name}"
        found.append(WebLink(label="NodeManager", href=href))
    server = (settings.get("yarn.log.server.url") or "").rstrip("/")
    if server and node.port and urlsplit(server).scheme in ("http", "https"):
        href = f"{server}/{Address(host=node.host, port=node.port)}/{container}/{container}/{name}"
        found.append(WebLink(label="log server", href=href))
    return tuple(found)


def _timeline(settings: Configuration, application: str) -> str:
    """Return the URL of its timeline; empty if the cluster has no timeline server."""
    on = settings.get_bool(f"{_TIMELINE}.enabled")
    if not on and not settings.get_bool(f"{_TIMELINE}.generic-application-history.enabled"):
        return ""
    versions = settings.get_list(f"{_TIMELINE}.versions") or [settings.get(f"{_TIMELINE}.version") or "1.0"]
    second = on and not any(version.startswith("1") for version in versions)
    secure = _is_secure(settings)
    key, port = ("webapp.https.address", 8190) if secure else ("webapp.address", 8188)
    own = settings.get_address(f"{_TIMELINE}.reader.{key}", port) if second else None
    address = own or settings.get_address(f"{_TIMELINE}.{key}", port)
    host = settings.get(f"{_TIMELINE}.hostname")
    if address is None and host:
        address = Address(host=host, port=port)
    if not _is_reachable(address):
        return ""
    path = f"ws/v2/timeline/apps/{application}" if second else f"applicationhistory/app/{application}"
    return f"{_find_scheme(settings)}://{address}/{path}"


def _find_default_web(settings: Configuration, host: str) -> str:
    """Return the default web address of a node that did not report one; its port may be ephemeral."""
    key, port = ("webapp.https.address", 8044) if _is_secure(settings) else ("webapp.address", 8042)
    address = settings.get_address(f"yarn.nodemanager.{key}", port)
    port = address.port if address else port
    return str(Address(host=host, port=port)) if host and port else ""


def _is_reachable(address: Address | None) -> bool:
    return address is not None and address.host not in _ANYWHERE


def _is_secure(settings: Configuration) -> bool:
    return settings.get("yarn.http.policy") == "HTTPS_ONLY"


def _find_scheme(settings: Configuration) -> str:
    return "https" if _is_secure(settings) else "http"
