"""YARN's web proxy, through which browsers reach the page of a running job."""

from __future__ import annotations

import socket
import sys
from pathlib import Path
from typing import Any

from tony.hadoop.configuration.service_addresses import list_resource_managers
from tony.schedulers.allocator_interface import PageProxy
from tony.schedulers.shipping import PAGES_ARCHIVE
from tony.schedulers.yarn.allocation.am_attempt import AmAttempt
from tony.schedulers.yarn.launch_payload import PAGES
from tony.units import format_size

#: Bytes of memory that the AM's container needs for the web server process next to the AM.
_PAGES_BYTES = 256 << 20


def find_page_proxy(attempt: AmAttempt) -> PageProxy | None:
    """Return the proxy of the job's page: a daemon of its own, or part of each ResourceManager; None without one."""
    configuration = attempt.cluster.configuration
    own = configuration.get_address("yarn.web-proxy.address", 0)
    daemons = list_resource_managers(configuration)
    hosts = [own.host] if own else [daemon.web.host for daemon in daemons if daemon.web]
    web = own or next((daemon.web for daemon in daemons if daemon.web), None)
    peers = {str(found[4][0]) for name in hosts for found in _resolve(name)}
    proxy = f"{daemons[0].web_scheme}://{web}/proxy/{attempt.job.record.job_id}/" if web else ""
    if not peers:
        return None
    origins = {f"{daemons[0].web_scheme}://{each}" for each in (own, *(daemon.web for daemon in daemons)) if each}
    principal = configuration.get("yarn.resourcemanager.principal") or ""
    plain = _explain_plain_page(attempt)
    return PageProxy(
        peers=tuple(sorted(peers)),
        proxy=proxy,
        origins=tuple(sorted(origins)),
        runs_as=tuple(sorted({"yarn", principal.partition("@")[0].partition("/")[0]} - {""})),
        # Without ACLs YARN itself shows container logs to all users.
        vouches=not configuration.get_bool("yarn.acl.enable"),
        packages="" if plain else _find_pages_archive(attempt.container.folder / PAGES),
        plain=plain,
    )


def _explain_plain_page(attempt: AmAttempt) -> str:
    """Return why only the plain page can be served; empty if the full one can."""
    if attempt.payload.pages is None:
        return "tony-jobs[web] is not installed where the job was submitted."
    if attempt.settings.am_memory < _PAGES_BYTES:
        return f"scheduler.yarn.am_memory is below {format_size(_PAGES_BYTES)}."
    return ""


def _find_pages_archive(folder: Path) -> str:
    """Return the zip with the full page, compiled for this Python if possible."""
    compiled = folder / f"{PAGES_ARCHIVE}-{sys.implementation.cache_tag}.zip"
    return str(compiled if compiled.is_file() else folder / f"{PAGES_ARCHIVE}.zip")


def _resolve(host: str) -> list[Any]:
    try:
        return socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return []
