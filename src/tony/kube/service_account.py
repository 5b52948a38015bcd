"""The API server and the service account of the pod in which this process runs.

Source: `InClusterConfig` in k8s.io/client-go/rest/config.go.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from tony.address import format_host
from tony.kube.cluster_access import ClusterAccess
from tony.kube.credentials import BearerTokenFile
from tony.kube.errors import CredentialsError

#: Where the kubelet puts token, certificate authority and namespace.
MOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def is_in_pod(environ: Mapping[str, str], mount: Path) -> bool:
    """Return True if this process runs in a pod that has a service account."""
    return bool(environ.get("KUBERNETES_SERVICE_HOST")) and (mount / "token").exists()


def load_service_account(environ: Mapping[str, str], mount: Path = MOUNT, namespace: str = "") -> ClusterAccess:
    """Return the access of this pod.

    Its `context` is a digest of the cluster's certificate authority, by which most clusters can be told apart.

    Args:
        namespace: instead of that of the pod.

    Raises:
        CredentialsError: the process runs in no pod, or its pod has no service account.
    """
    host, port = environ.get("KUBERNETES_SERVICE_HOST"), environ.get("KUBERNETES_SERVICE_PORT")
    if not host or not port:
        raise CredentialsError("KUBERNETES_SERVICE_HOST is not set: this process runs in no pod")
    try:
        authority = (mount / "ca.crt").read_text("ascii")
        namespace = namespace or (mount / "namespace").read_text("ascii").strip()
    except (OSError, UnicodeError) as error:
        raise CredentialsError(f"the pod has no service account: {error}") from None
    return ClusterAccess(
        server=f"https://{format_host(host)}:{port}",
        namespace=namespace,
        authority=authority,
        credentials=BearerTokenFile(mount / "token"),
        origin=f"the service account in {mount}",
        context=f"authority-{hashlib.sha256(authority.encode()).hexdigest()[:12]}",
    )
