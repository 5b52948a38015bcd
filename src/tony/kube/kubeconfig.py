"""Finds a cluster and its user in kubeconfig files, as `kubectl` does.

Several files are merged: the first one that has a name, or a current context, wins. Relative paths are relative to
their file. Sources: k8s.io/client-go/tools/clientcmd: `loader.go`, `client_config.go`, `api/v1/types.go`.
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from tony.address import is_loopback
from tony.errors import ConfigError, Problem
from tony.kube.cluster_access import ClusterAccess
from tony.kube.credentials import (
    BearerTokenFile,
    CredentialSource,
    ExecCommand,
    FixedCredentials,
    LoginCredentials,
    build_basic,
    build_bearer,
    describe_cluster_for_exec,
    share_exec_credentials,
)
from tony.kube.errors import CredentialsError

_EXEC_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
#: Sections whose entries have a name; the entry itself is below the second word.
_SECTIONS = {"clusters": "cluster", "users": "user", "contexts": "context"}


class KubeconfigError(ConfigError):
    """A kubeconfig file cannot be used."""


@dataclass(frozen=True, slots=True)
class _Entry:
    """A named entry and the file that has it."""

    values: Mapping[str, Any]
    file: Path

    def get_text(self, key: str) -> str:
        """Return a value; empty if it is not set."""
        value = self.values.get(key)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise _build_error(self.file, key, "must be text")
        return value

    def get_flag(self, key: str) -> bool:
        """Return a value; False if it is not set."""
        value = self.values.get(key)
        if value is not None and not isinstance(value, bool):
            raise _build_error(self.file, key, "must be true or false")
        return bool(value)

    def read(self, key: str) -> str:
        """Return the text of a file that `key` names, or of `key-data`, which goes first; empty if neither is set."""
        if data := self.get_text(f"{key}-data"):
            try:
                return base64.b64decode(data, validate=True).decode("ascii")
            except (binascii.Error, UnicodeError):
                raise _build_error(self.file, f"{key}-data", "is not base64") from None
        if not (name := self.get_text(key)):
            return ""
        path = self.file.parent / name
        try:
            return path.read_text("ascii")
        except (OSError, UnicodeError) as error:
            raise _build_error(self.file, key, f"{path} cannot be read: {error}") from None


def find_kubeconfig_files(environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Return the files that `kubectl` would read: those of KUBECONFIG, else `~/.kube/config`."""
    if names := environ.get("KUBECONFIG"):
        return tuple(Path(name).expanduser() for name in names.split(os.pathsep) if name)
    return (Path("~/.kube/config").expanduser(),)


def load_cluster_access(files: Sequence[Path], context: str = "", namespace: str = "") -> ClusterAccess:
    """Return the cluster and user of a context.

    Args:
        files: those that do not exist are passed over, unless all are missing.
        context: name of the context; empty: the current one.
        namespace: instead of that of the context.

    Raises:
        KubeconfigError: there is no such context, or it cannot be used.
    """
    sections, current = _merge(files)
    name = context or current
    shown = ", ".join(map(str, files))
    if not any(file.exists() for file in files):
        text = "there is no such kubeconfig file: set KUBECONFIG, or the setting `kubeconfig`, to that of your cluster"
        raise KubeconfigError([Problem(key="", source=shown, message=text)])
    if not name:
        text = "there is no current context: set `context`, or run kubectl config use-context NAME"
        raise KubeconfigError([Problem(key="", source=shown, message=text)])
    found = _find(sections, "contexts", name, shown)
    cluster = _find(sections, "clusters", found.get_text("cluster"), shown)
    user_name = found.get_text("user")
    user = _find(sections, "users", user_name, shown) if user_name else _Entry({}, found.file)
    server = cluster.get_text("server")
    if not _is_server(server):
        raise _build_error(cluster.file, "server", "must be the URL of an API server, such as https://10.0.0.1:6443")
    if user.values.get("as-groups"):
        raise _build_error(user.file, "as-groups", "is not supported: a user can be impersonated (`as`), groups cannot")
    return ClusterAccess(
        server=server.rstrip("/"),
        namespace=namespace or found.get_text("namespace") or "default",
        authority=cluster.read("certificate-authority"),
        is_verified=not cluster.get_flag("insecure-skip-tls-verify"),
        tls_name=cluster.get_text("tls-server-name"),
        proxy=cluster.get_text("proxy-url") or find_proxy(server),
        credentials=_build_credentials(user, cluster),
        user=user.get_text("as"),
        origin=f"context {name} of {found.file}",
        context=name,
    )


def _is_server(server: str) -> bool:
    try:
        parts = urlsplit(server)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def find_proxy(server: str) -> str:
    """Return the proxy that the environment names for a server (HTTPS_PROXY, NO_PROXY); empty if it names none.

    As for `kubectl`, servers of this machine need none, whatever the environment says.
    """
    parts = urlsplit(server)
    if is_loopback(parts.hostname or ""):
        return ""
    return "" if proxy_bypass(parts.netloc) else getproxies().get(parts.scheme, "")


def _merge(files: Sequence[Path]) -> tuple[dict[str, dict[str, _Entry]], str]:
    """Return section -> name -> entry, and the name of the current context."""
    sections: dict[str, dict[str, _Entry]] = {section: {} for section in _SECTIONS}
    current = ""
    for file in files:
        text = _read(file)
        if text is None:
            continue
        document = _parse(file, text)
        name = document.get("current-context")
        current = current or (name if isinstance(name, str) else "")
        for section, word in _SECTIONS.items():
            for entry in document.get(section) or ():
                if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
                    raise _build_error(file, section, "each entry must have a name")
                values = entry.get(word)
                sections[section].setdefault(entry["name"], _Entry(values if isinstance(values, dict) else {}, file))
    return sections, current


def _read(file: Path) -> str | None:
    try:
        return file.read_text("utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeError) as error:
        raise _build_error(file, "", f"cannot be read: {error}") from None


@lru_cache(maxsize=8)  # a large file takes a quarter second, for each poll of a command that waits
def _parse(file: Path, text: str) -> Mapping[str, Any]:
    import yaml  # late: in the AM there is no kubeconfig file, and no such library

    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise _build_error(file, "", f"is not YAML: {' '.join(str(error).split())}") from None
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise _build_error(file, "", "is not a kubeconfig file")
    return document


def _find(sections: Mapping[str, Mapping[str, _Entry]], section: str, name: str, files: str) -> _Entry:
    found = sections[section].get(name)
    if found is None:
        known = ", ".join(sorted(sections[section])[:10]) or "none"
        text = f"there is no such {_SECTIONS[section]}; known: {known}"
        raise KubeconfigError([Problem(key=_SECTIONS[section], value=name, source=files, message=text)])
    return found


def _build_credentials(user: _Entry, cluster: _Entry) -> CredentialSource:
    if user.values.get("auth-provider"):
        raise _build_error(user.file, "auth-provider", "is no longer supported by Kubernetes: use an exec plug-in")
    login = LoginCredentials(certificate=user.read("client-certificate"), key=user.read("client-key"))
    if bool(login.certificate) != bool(login.key):
        raise _build_error(user.file, "client-certificate", "needs client-key, and the other way round")
    if user.values.get("exec"):
        return share_exec_credentials(_build_exec_command(user, cluster), login)
    if name := user.get_text("tokenFile"):
        return BearerTokenFile(user.file.parent / name, login)
    if token := user.get_text("token"):
        try:
            return FixedCredentials(build_bearer(token, login))
        except CredentialsError as error:
            raise _build_error(user.file, "token", str(error)) from None
    if name := user.get_text("username"):
        return FixedCredentials(build_basic(name, user.get_text("password"), login))
    return FixedCredentials(login)


def _build_exec_command(user: _Entry, cluster: _Entry) -> ExecCommand:
    values = user.values["exec"]
    entry = _Entry(values if isinstance(values, dict) else {}, user.file)
    version, command = entry.get_text("apiVersion"), entry.get_text("command")
    if version not in _EXEC_VERSIONS:
        raise _build_error(user.file, "exec.apiVersion", f"must be one of {', '.join(_EXEC_VERSIONS)}")
    if not command:
        raise _build_error(user.file, "exec.command", "is missing")
    if entry.get_text("interactiveMode") == "Always":
        raise _build_error(user.file, "exec.interactiveMode", "a program that asks questions cannot be used here")
    if os.sep in command:
        command = str(user.file.parent / command)
    arguments, variables = entry.values.get("args") or [], entry.values.get("env") or []
    try:
        environment = {str(each["name"]): str(each["value"]) for each in variables}
        arguments = tuple(map(str, arguments))
    except (TypeError, LookupError):
        raise _build_error(user.file, "exec", "args must be a list, and env one of names and values") from None
    wants_cluster = bool(entry.values.get("provideClusterInfo"))
    return ExecCommand(
        arguments=(command, *arguments),
        variables=environment,
        api_version=version,
        cluster=describe_cluster_for_exec(cluster.get_text("server"), cluster.values) if wants_cluster else None,
        hint=entry.get_text("installHint").strip(),
    )


def _build_error(file: Path, key: str, message: str) -> KubeconfigError:
    return KubeconfigError([Problem(key=key, source=str(file), message=message)])
