"""Creates the secrets of a job at submission: its token and, if messages can leave the machine, its certificates."""

from __future__ import annotations

import os

from tony.protocol.hello import AM_NAME, PEER_NAME
from tony.protocol.launch import AmCredentials, JobCredentials


def make_credentials(*, tls: bool) -> JobCredentials:
    """Create the secrets of a new job.

    Args:
        tls: create certificates as well.
    """
    token = os.urandom(32).hex()
    if not tls:
        plain = AmCredentials(token=token)
        return JobCredentials(am=plain, executors=plain)
    from tony.client.certificate_authority import CertificateAuthority  # late: 50 ms; not for local jobs

    authority = CertificateAuthority()
    return JobCredentials(am=authority.sign(token, AM_NAME), executors=authority.sign(token, PEER_NAME))
