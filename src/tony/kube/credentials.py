"""Credentials for an API server: fixed, read from a file again and again, or printed by a program (*exec plug-in*).

Sources: `AuthInfo` and `ExecConfig` in k8s.io/client-go/tools/clientcmd/api/v1/types.go; `ExecCredential` in
k8s.io/client-go/pkg/apis/clientauthentication/v1/types.go.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from tony.kube.errors import CredentialsError

#: Seconds after which a token file is read again: the kubelet replaces tokens while pods run.
_FILE_SECONDS = 60.0
#: Seconds before their end at which printed credentials are replaced.
_EARLY_SECONDS = 30.0
_EXEC_TIMEOUT_SECONDS = 120.0
_MAX_TOKEN_CHARACTERS = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginCredentials:
    """What a client shows to an API server; all are empty for an anonymous one.

    Attributes:
        authorization: value of the header of that name.
        certificate, key: of the TLS client, in PEM.
    """

    authorization: str = field(default="", repr=False)
    certificate: str = ""
    key: str = field(default="", repr=False)


class CredentialSource(ABC):
    """Has the credentials of a user. Thread-safe."""

    @abstractmethod
    def load(self) -> LoginCredentials:
        """Return valid credentials.

        Raises:
            CredentialsError: there are none.
        """

    def forget(self) -> None:  # noqa: B027 - most credentials do not change
        """Drop what is kept: the server has refused it."""


@dataclass(frozen=True, slots=True)
class FixedCredentials(CredentialSource):
    """Credentials that do not change; by default those of an anonymous user."""

    login: LoginCredentials = field(default_factory=LoginCredentials)

    def load(self) -> LoginCredentials:
        return self.login


class BearerTokenFile(CredentialSource):
    """A bearer token in a file that is replaced from time to time.

    Args:
        login: the certificate, if the user has one, too.
    """

    def __init__(self, path: Path, login: LoginCredentials | None = None) -> None:
        self._path = path
        self._login = login or LoginCredentials()
        self._lock = threading.Lock()
        self._token = ""
        self._read_at = 0.0

    def load(self) -> LoginCredentials:
        with self._lock:
            if not self._token or time.monotonic() - self._read_at > _FILE_SECONDS:
                self._token = self._read()
                self._read_at = time.monotonic()
            token = self._token
        return build_bearer(token, self._login)

    def forget(self) -> None:
        with self._lock:
            self._token = ""

    def _read(self) -> str:
        try:
            token = self._path.read_text("ascii").strip()
        except (OSError, UnicodeError) as error:
            if self._token:  # it is being replaced
                return self._token
            raise CredentialsError(f"the token in {self._path} cannot be read: {error}") from None
        if not token or len(token) > _MAX_TOKEN_CHARACTERS or not token.isprintable():
            raise CredentialsError(f"{self._path} has no token")
        return token


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecCommand:
    """A program that prints credentials.

    Attributes:
        arguments: the program, absolute or to be found in PATH, and its arguments.
        variables: added to the environment.
        api_version: of the `ExecCredential` that it reads and prints.
        cluster: `spec.cluster` of that object; None if the program does not want to know it.
        hint: how to install it.
    """

    arguments: tuple[str, ...]
    variables: Mapping[str, str]
    api_version: str
    cluster: Mapping[str, object] | None = None
    hint: str = ""


class ExecCredentials(CredentialSource):
    """Credentials that a program prints; kept until they expire.

    Args:
        login: the certificate, if the kubeconfig file has one, too.
    """

    def __init__(self, command: ExecCommand, login: LoginCredentials | None = None) -> None:
        self._command = command
        self._login = login or LoginCredentials()
        self._lock = threading.Lock()
        self._kept: LoginCredentials | None = None
        self._expires_at: float | None = None

    def load(self) -> LoginCredentials:
        with self._lock:
            is_expired = self._expires_at is not None and time.time() > self._expires_at - _EARLY_SECONDS
            if self._kept is None or is_expired:
                self._kept, self._expires_at = self._parse(self._run())
            return self._kept

    def forget(self) -> None:
        with self._lock:
            self._kept = None

    def _run(self) -> bytes:
        command = self._command
        spec: dict[str, object] = {"interactive": False}
        if command.cluster is not None:
            spec["cluster"] = command.cluster
        request = {"apiVersion": command.api_version, "kind": "ExecCredential", "spec": spec}
        environment = {**os.environ, **command.variables, "KUBERNETES_EXEC_INFO": json.dumps(request)}
        name = command.arguments[0]
        try:
            done = subprocess.run(
                command.arguments,
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_EXEC_TIMEOUT_SECONDS,
                check=False,
            )
        except FileNotFoundError:
            hint = f": {command.hint}" if command.hint else ""
            raise CredentialsError(
                f"the program {name}, by which the kubeconfig file logs in, is not installed{hint}"
            ) from None
        except (OSError, subprocess.SubprocessError) as error:
            raise CredentialsError(
                f"the program {name}, by which the kubeconfig file logs in, failed: {error}"
            ) from None
        if done.returncode:
            last = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
            text = f"{last[:300]!a}" if last else "no message"
            failed = f"failed with exit code {done.returncode}: {text}. Run it, or kubectl, to see why."
            raise CredentialsError(f"the program {name}, by which the kubeconfig file logs in, {failed}")
        return done.stdout

    def _parse(self, output: bytes) -> tuple[LoginCredentials, float | None]:
        name = self._command.arguments[0]
        try:
            answer = json.loads(output)
            if answer["apiVersion"] != self._command.api_version or answer["kind"] != "ExecCredential":
                raise ValueError(f"it is not an ExecCredential of {self._command.api_version}")
            status = answer["status"]
            expires_at = status.get("expirationTimestamp")
            until = None if expires_at is None else datetime.fromisoformat(expires_at).timestamp()
            login = self._login
            if status.get("clientCertificateData"):
                login = LoginCredentials(
                    certificate=str(status["clientCertificateData"]), key=str(status["clientKeyData"])
                )
            token = status.get("token")
            if not token and not login.certificate:
                raise ValueError("it has neither a token nor a certificate")
            return build_bearer(str(token), login) if token else login, until
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise CredentialsError(f"the answer of the program {name} cannot be used: {error}") from None


_exec_credentials: dict[tuple[str, LoginCredentials], ExecCredentials] = {}


def share_exec_credentials(command: ExecCommand, login: LoginCredentials) -> ExecCredentials:
    """Return the credentials that a program prints.

    All clients in this process share them, so that the program runs, and may prompt the user, once.
    """
    text = json.dumps([command.arguments, dict(command.variables), command.api_version, command.cluster])
    return _exec_credentials.setdefault((text, login), ExecCredentials(command, login))


def build_bearer(token: str, login: LoginCredentials) -> LoginCredentials:
    """Return credentials with a bearer token added. White space around it, such as the end of a line, is left out.

    Raises:
        CredentialsError: it cannot be part of a header.
    """
    token = token.strip()
    if not (token.isascii() and token.isprintable()):
        raise CredentialsError("a bearer token has characters that no header may have")
    return LoginCredentials(authorization=f"Bearer {token}", certificate=login.certificate, key=login.key)


def build_basic(user: str, password: str, login: LoginCredentials) -> LoginCredentials:
    """Return credentials with a user name and password added."""
    pair = base64.b64encode(f"{user}:{password}".encode()).decode()
    return LoginCredentials(authorization=f"Basic {pair}", certificate=login.certificate, key=login.key)


def describe_cluster_for_exec(server: str, values: Mapping[str, Any]) -> Mapping[str, object]:
    """Return `spec.cluster` of an `ExecCredential` for a cluster of a kubeconfig file.

    Args:
        values: the cluster's table: the keys that have the same meaning there.
    """
    cluster: dict[str, object] = {"server": server}
    keys = ("tls-server-name", "insecure-skip-tls-verify", "certificate-authority-data", "proxy-url")
    return cluster | {key: values[key] for key in keys if values.get(key)}
