"""The user and credentials of a program: from the configuration, the environment and the token file.

The order is Hadoop's own. A token for the daemon comes first, on every cluster. Without one, a cluster whose
`hadoop.security.authentication` is `kerberos` needs a ticket, and any other accepts a name: HADOOP_USER_NAME, or else
that of the process's user. HADOOP_PROXY_USER impersonates another user, if the cluster allows it.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import re
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Final

from tony.control_characters import escape_line
from tony.hadoop.configuration import ConfigurationError
from tony.hadoop.configuration.service_addresses import NameService, ServiceAddress
from tony.hadoop.configuration.settings import HadoopConfiguration
from tony.hadoop.ipc.login import LoginIdentity
from tony.hadoop.sasl.digest_layers import Protection, parse_protections
from tony.hadoop.tokens import (
    HDFS_DELEGATION,
    RM_DELEGATION,
    MalformedWritableError,
    TokenCredentials,
    find_service,
    read_file,
    read_hdfs_owner,
    select,
)
from tony.hadoop.wire.rpc import Token

_AUTHENTICATION: Final = "hadoop.security.authentication"
_PROTECTION: Final = "hadoop.rpc.protection"
_TOKEN_FILE: Final = "HADOOP_TOKEN_FILE_LOCATION"
_NO_TOKENS: Final = TokenCredentials()


def is_secure(settings: HadoopConfiguration) -> bool:
    """Return True if the cluster requires authentication: `hadoop.security.authentication` is `kerberos`.

    Raises:
        ConfigurationError: it is neither that nor `simple`.
    """
    word = (settings.get(_AUTHENTICATION) or "").lower()
    if word not in ("simple", "kerberos"):
        raise settings.build_error(_AUTHENTICATION, "write simple or kerberos")
    return word == "kerberos"


def find_user_name(settings: HadoopConfiguration, environ: Mapping[str, str]) -> str:
    """Return the user name for a cluster without security. On a secure one: the name of the process's user."""
    named = environ.get("HADOOP_USER_NAME", "").strip()
    if named and not is_secure(settings):
        return named
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        name = environ.get("USER") or environ.get("LOGNAME")
        if name:
            return name
        raise ConfigurationError(
            f"the user id {os.geteuid()} has no name on this machine. Set HADOOP_USER_NAME.",
            source="HADOOP_USER_NAME",
        ) from None


def load_token_file(environ: Mapping[str, str]) -> TokenCredentials:
    """Return the tokens of the file that HADOOP_TOKEN_FILE_LOCATION names; none if it is not set.

    Raises:
        ConfigurationError: it cannot be read, or is no token file.
    """
    named = environ.get(_TOKEN_FILE)
    if not named:
        return _NO_TOKENS
    try:
        return read_file(Path(named))
    except OSError as error:
        why = f"{error.strerror or type(error).__name__}."
    except MalformedWritableError as error:
        why = str(error)
    raise ConfigurationError(f"{_TOKEN_FILE} = {escape_line(named)}: cannot be read: {why}", source=_TOKEN_FILE)


def list_protections(settings: HadoopConfiguration) -> tuple[Protection, ...]:
    """Return the configured quality of protection; empty if unset (the daemon decides).

    Raises:
        ConfigurationError: a word that is none.
    """
    if _PROTECTION not in settings:
        return ()
    try:
        return parse_protections(settings.get(_PROTECTION) or "")
    except ValueError as error:
        raise settings.build_error(_PROTECTION, str(error)) from None


class Logins:
    """The logins of one program.

    Args:
        credentials: tokens from elsewhere; None for those of HADOOP_TOKEN_FILE_LOCATION.
    """

    def __init__(
        self, settings: HadoopConfiguration, environ: Mapping[str, str], credentials: TokenCredentials | None = None
    ) -> None:
        self._settings, self._environ = settings, environ
        self.credentials = load_token_file(environ) if credentials is None else credentials
        self.is_secure = is_secure(settings)
        self._protections = list_protections(settings)
        self._fallback = not self.is_secure or settings.get_bool("ipc.client.fallback-to-simple-auth-allowed")
        self._use_ip = settings.get_bool("hadoop.security.token.service.use_ip", True)

    @cached_property
    def user(self) -> str:
        """The user name; on a secure cluster that of the Kerberos principal, as far as it is known.

        There Hadoop makes a user's name of a principal: its first part, unless `hadoop.security.auth_to_local` has
        rules of its own, which are not looked at here.
        """
        return re.split("[/@]", self.principal)[0]

    @cached_property
    def principal(self) -> str:
        """The Kerberos principal, as far as it is known; without security the user name."""
        principal = self._find_principal() if self.is_secure else None
        return principal or find_user_name(self._settings, self._environ)

    @property
    def acts_for(self) -> str:
        """The impersonated user, or empty."""
        return self._environ.get("HADOOP_PROXY_USER", "").strip()

    def _find_principal(self) -> str | None:
        """Return the owner of the tokens or of the ticket."""
        for token in self.credentials.tokens_by_kind(HDFS_DELEGATION):
            with contextlib.suppress(MalformedWritableError):
                return read_hdfs_owner(token)
        from tony.hadoop.sasl.gssapi import find_ticket_holder  # late: programs in a container have no ticket

        return find_ticket_holder()

    def login_for_resource_manager(self, daemon: ServiceAddress) -> LoginIdentity:
        """Return the login for clients of the ResourceManager.

        Raises:
            ConfigurationError: a secure cluster whose ResourceManager's principal is not known.
        """
        return self._build_login(self._select(RM_DELEGATION, daemon), "yarn.resourcemanager.principal")

    def login_for_name_node(self, service: NameService) -> Callable[[ServiceAddress], LoginIdentity]:
        """Return a function that gives the login for a NameNode: tokens may be for a single one.

        Raises (when it is called):
            ConfigurationError: a secure cluster whose NameNode's principal is not known.
        """
        return lambda daemon: self._build_login(
            self._select(HDFS_DELEGATION, daemon, service.service), "dfs.namenode.kerberos.principal"
        )

    def find_file_token(self, service: NameService) -> Token | None:
        """Return the token for a file system, if there is one. May ask the DNS."""
        found = (self._select(HDFS_DELEGATION, daemon, service.service) for daemon in service.name_nodes)
        return next((token for token in found if token is not None), None)

    def find_file_service(self, service: NameService) -> str:
        """Return the service that tokens for a file system name. May query the DNS."""
        return service.service or self._find_service(service.name_nodes[0])

    def _find_service(self, daemon: ServiceAddress) -> str:
        return find_service(daemon.address, use_ip=self._use_ip)

    def _select(self, kind: str, daemon: ServiceAddress, logical: str | None = None) -> Token | None:
        """Return the token for a logical service or for a daemon; asks the DNS only if there are any of the kind."""
        if not self.credentials.tokens_by_kind(kind):
            return None
        token = select(self.credentials, kind, logical) if logical else None
        return token or select(self.credentials, kind, self._find_service(daemon))

    def _build_login(self, token: Token | None, principal_key: str) -> LoginIdentity:
        acting_for = self.acts_for or None
        if token is not None:
            return LoginIdentity(
                token=token,
                protections=self._protections,
                fallback_to_simple=self._fallback,
                user=None if self.is_secure else self.user,
            )
        if not self.is_secure:
            return LoginIdentity(user=acting_for or self.user, real_user=self.user if acting_for else None)
        principal = self._settings.get(principal_key)
        pattern = self._settings.get(f"{principal_key}.pattern")
        if not principal and not pattern:
            raise self._settings.build_error(
                principal_key,
                f"is required because {_AUTHENTICATION} is kerberos: without it any principal could impersonate the "
                "daemon. Take it from the cluster's own configuration.",
            )
        return LoginIdentity(
            server_principal=principal or None,
            server_pattern=pattern or None,
            protections=self._protections,
            fallback_to_simple=self._fallback,
            user=acting_for,
        )
