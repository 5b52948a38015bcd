"""Where the API server of a cluster is, and who the client is."""

from __future__ import annotations

import os
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tony.kube.credentials import CredentialSource, FixedCredentials, LoginCredentials
from tony.kube.errors import CredentialsError


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterAccess:
    """A cluster and a user of it.

    Attributes:
        server: URL of the API server.
        namespace: the one to use unless a request names another.
        authority: certificates of authorities to trust, in PEM; empty: those of the system.
        is_verified: the server's certificate is checked; False only if the kubeconfig file says so.
        tls_name: name that the certificate must have; empty: the host of `server`.
        proxy: URL of an HTTP proxy; empty: none.
        credentials: who the client is.
        user: the one to impersonate; empty: none.
        origin: where all this was found, for messages.
        context: name of the context; empty if there is none.
    """

    server: str
    namespace: str = "default"
    authority: str = ""
    is_verified: bool = True
    tls_name: str = ""
    proxy: str = ""
    credentials: CredentialSource = field(default_factory=FixedCredentials)
    user: str = ""
    origin: str = ""
    context: str = ""

    def create_tls_context(self, login: LoginCredentials) -> ssl.SSLContext:
        """Return the settings of a TLS connection, with the client's certificate if it has one.

        Raises:
            CredentialsError: a certificate or key cannot be used.
        """
        try:
            context = ssl.create_default_context(cadata=self.authority or None)
            if not self.is_verified:
                context.check_hostname = False
                context.verify_mode = ssl.CERT_NONE
            if login.certificate:
                with _store_in_memory(login.certificate) as certificate, _store_in_memory(login.key) as key:
                    context.load_cert_chain(certificate, key)
        except (ssl.SSLError, ValueError) as error:
            raise CredentialsError(f"{self.origin}: a certificate or key cannot be used: {error}") from None
        return context


@contextmanager
def _store_in_memory(text: str) -> Iterator[str]:
    """Yield the path of a file that exists in memory only: a key must not reach a disk, and `ssl` reads files."""
    descriptor = os.memfd_create("tony", os.MFD_CLOEXEC)
    try:
        os.write(descriptor, text.encode())
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
