"""The ResourceManagers, NameNodes and file systems of a configuration, with their addresses."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from tony.address import Address, parse_address
from tony.hadoop.configuration.settings import HadoopConfiguration

_RM: Final = "yarn.resourcemanager"
#: What an address says that was never set; a client reaches only a daemon on its own machine by it.
_ANYWHERE: Final = ("0.0.0.0", "::")
NAMENODE_PORT: Final = 8020
_WEB_PORTS: Final = {"http": 9870, "https": 9871}


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceAddress:
    """One of the machines that may answer.

    Attributes:
        id: its name in the configuration, such as `rm1`; empty if there is but one.
        address: of the requested protocol.
        web: of its web pages, or None if not known.
        web_scheme: `http` or `https`.
        source: where the address was set.
    """

    id: str
    address: Address
    web: Address | None = None
    web_scheme: str = "http"
    source: str = field(default="", compare=False)

    def __str__(self) -> str:
        return f"{self.id} ({self.address})" if self.id else str(self.address)


@dataclass(frozen=True, slots=True, kw_only=True)
class NameService:
    """A file system of HDFS.

    Attributes:
        uri: `hdfs://host:port` or `hdfs://nameservice`, as paths of it begin.
        logical: whether the name is one of the configuration's only, and no host.
        name_nodes: all of them, in the configuration's order.
    """

    uri: str
    logical: bool
    name_nodes: tuple[ServiceAddress, ...]

    @property
    def service(self) -> str | None:
        """The service of tokens for a logical name; others go by address."""
        return f"ha-hdfs:{self.uri.partition('://')[2]}" if self.logical else None


def list_resource_managers(
    settings: HadoopConfiguration, *, address_key: str = "address", port: int = 8032
) -> tuple[ServiceAddress, ...]:
    """Return the ResourceManagers, in the configuration's order.

    Args:
        address_key: `address` for clients (port 8032), `scheduler.address` for application masters (8030).
        port: used where the setting has none.

    Raises:
        ConfigurationError: high availability without members, or a member without an address.
    """
    if not settings.get_bool(f"{_RM}.ha.enabled"):
        return (_build_manager(settings, address_key, port, ""),)
    ids = settings.get_list(f"{_RM}.ha.rm-ids")
    if not ids:
        raise settings.build_error(f"{_RM}.ha.rm-ids", f"is required because {_RM}.ha.enabled is true")
    return tuple(_build_manager(settings, address_key, port, each) for each in ids)


def list_schedulers(settings: HadoopConfiguration) -> tuple[ServiceAddress, ...]:
    """Return the scheduler addresses (for AMs) of the ResourceManagers."""
    return list_resource_managers(settings, address_key="scheduler.address", port=8030)


def _build_manager(settings: HadoopConfiguration, address_key: str, port: int, rm_id: str) -> ServiceAddress:
    secure = settings.get("yarn.http.policy") == "HTTPS_ONLY"
    page, page_port = ("webapp.https.address", 8090) if secure else ("webapp.address", 8088)
    _, web = _find_manager_address(settings, page, page_port, rm_id)
    key, address = _find_manager_address(settings, address_key, port, rm_id)
    if address is None:
        raise settings.build_error(key, f"is required, or {_RM}.hostname.{rm_id}")
    return ServiceAddress(
        id=rm_id,
        address=address,
        web=_make_reachable(web, address),
        web_scheme="https" if secure else "http",
        source=f"{key}, {settings.find_source(key)}",
    )


def _find_manager_address(
    settings: HadoopConfiguration, address_key: str, port: int, rm_id: str
) -> tuple[str, Address | None]:
    """Return the key that says it, and the address."""
    key, host_key = f"{_RM}.{address_key}", f"{_RM}.hostname"
    if rm_id:
        key, host_key = f"{key}.{rm_id}", f"{host_key}.{rm_id}"
    address = settings.get_address(key, port)
    if not rm_id and f"{_RM}.{address_key}" not in settings:
        key = host_key  # where the default leads
    if address is None and settings.get(host_key):
        return host_key, settings.get_address(host_key, port)
    return key, address


def find_default_file_system(settings: HadoopConfiguration) -> str:
    """Return `fs.defaultFS` as a URI without a slash at its end: `hdfs://ns1`, `file://`."""
    text = settings.get("fs.defaultFS") or ""
    if text == "local":
        text = "file:///"
    if "/" not in text:
        text = f"hdfs://{text}"
    return text.rstrip("/") if not text.startswith("file:") else "file://"


def find_name_service(settings: HadoopConfiguration, uri: str | None = None) -> NameService:
    """Return the NameNodes behind a URI.

    Args:
        uri: `hdfs://...`, with or without a path; None for `fs.defaultFS`.

    Raises:
        ConfigurationError: no URI of HDFS, or a nameservice whose NameNodes have no addresses.
    """
    chosen = find_default_file_system(settings) if uri is None else uri
    parts = urlsplit(chosen)
    if parts.scheme != "hdfs" or not parts.netloc:
        raise settings.build_error(
            "fs.defaultFS", f"{chosen!r:.200} is not an HDFS URI: write hdfs://host:port or hdfs://nameservice"
        )
    name = parts.netloc.rpartition("@")[2]
    root = f"hdfs://{name}"
    ids = settings.get_list(f"dfs.ha.namenodes.{name}")
    if ids:
        nodes = tuple(_build_name_node(settings, f"{name}.{each}", each) for each in ids)
        return NameService(uri=root, logical=True, name_nodes=nodes)
    if name in settings.get_list("dfs.nameservices") and f"dfs.namenode.rpc-address.{name}" in settings:
        return NameService(uri=root, logical=False, name_nodes=(_build_name_node(settings, name, ""),))
    return NameService(uri=root, logical=False, name_nodes=(_build_single(settings, name, uri),))


def _build_single(settings: HadoopConfiguration, authority: str, uri: str | None) -> ServiceAddress:
    try:
        address = parse_address(authority, NAMENODE_PORT)
    except ValueError as error:
        raise settings.build_error("fs.defaultFS", f"{authority!r:.200}: {error}") from None
    source = "the path given" if uri is not None else f"fs.defaultFS, {settings.find_source('fs.defaultFS')}"
    scheme, web = _find_web_address(settings, "")
    is_own = address == _find_own_address(settings)
    return ServiceAddress(
        id="", address=address, web=_make_reachable(web, address) if is_own else None, web_scheme=scheme, source=source
    )


def _find_own_address(settings: HadoopConfiguration) -> Address | None:
    """Return the address of the NameNode of settings without a name."""
    own = settings.get_address("dfs.namenode.rpc-address", NAMENODE_PORT)
    if own is not None:
        return own
    try:
        return parse_address(urlsplit(find_default_file_system(settings)).netloc.rpartition("@")[2], NAMENODE_PORT)
    except ValueError:
        return None


def build_usual_web_address(node: ServiceAddress) -> str:
    """Return the default web address of a NameNode."""
    port = _WEB_PORTS[node.web_scheme]
    return f"{node.web_scheme}://{Address(host=node.address.host, port=port)}"


def _build_name_node(settings: HadoopConfiguration, suffix: str, node_id: str) -> ServiceAddress:
    key = f"dfs.namenode.rpc-address.{suffix}"
    address = settings.get_address(key, NAMENODE_PORT)
    if address is None:
        raise settings.build_error(key, "is required: host:port of the NameNode")
    scheme, web = _find_web_address(settings, f".{suffix}")
    return ServiceAddress(
        id=node_id,
        address=address,
        web=_make_reachable(web, address),
        web_scheme=scheme,
        source=f"{key}, {settings.find_source(key)}",
    )


def _find_web_address(settings: HadoopConfiguration, suffix: str) -> tuple[str, Address | None]:
    scheme = "https" if settings.get("dfs.http.policy") == "HTTPS_ONLY" else "http"
    port = _WEB_PORTS[scheme]
    own = settings.get_address(f"dfs.namenode.{scheme}-address{suffix}", port)
    return scheme, own or settings.get_address(f"dfs.namenode.{scheme}-address", port)


def _make_reachable(web: Address | None, rpc: Address) -> Address | None:
    """Return the address to use for a web server that listens on all interfaces: the host of its daemon."""
    if web is not None and web.host in _ANYWHERE:
        return Address(host=rpc.host, port=web.port)
    return web
