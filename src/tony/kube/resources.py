"""Kinds of objects of the Kubernetes API, and the paths under which the API server has them."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiResource:
    """A kind of object.

    Attributes:
        group: of the API; empty for the core group.
        version: such as `v1`.
        plural: the name in paths, such as `pods`.
        kind: the name in objects, such as `Pod`.
        is_namespaced: its objects are in namespaces.
    """

    group: str = ""
    version: str = "v1"
    plural: str
    kind: str
    is_namespaced: bool = True

    @property
    def api_version(self) -> str:
        """The `apiVersion` of its objects."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def build_path(self, namespace: str, name: str = "", subresource: str = "") -> str:
        """Return the path of all objects, or of one.

        Args:
            namespace: ignored if the kind has none.
        """
        parts = ["", "apis", self.group, self.version] if self.group else ["", "api", self.version]
        if self.is_namespaced:
            parts += ["namespaces", namespace]
        parts += [self.plural, *filter(None, (name, subresource))]
        return "/".join(quote(part, safe="") for part in parts)


PODS = ApiResource(plural="pods", kind="Pod")
CONFIG_MAPS = ApiResource(plural="configmaps", kind="ConfigMap")
SECRETS = ApiResource(plural="secrets", kind="Secret")
PERSISTENT_VOLUMES = ApiResource(plural="persistentvolumes", kind="PersistentVolume", is_namespaced=False)
PERSISTENT_VOLUME_CLAIMS = ApiResource(plural="persistentvolumeclaims", kind="PersistentVolumeClaim")
SERVICE_ACCOUNTS = ApiResource(plural="serviceaccounts", kind="ServiceAccount")
NAMESPACES = ApiResource(plural="namespaces", kind="Namespace", is_namespaced=False)
RESOURCE_QUOTAS = ApiResource(plural="resourcequotas", kind="ResourceQuota")
NODES = ApiResource(plural="nodes", kind="Node", is_namespaced=False)
ROLES = ApiResource(group="rbac.authorization.k8s.io", plural="roles", kind="Role")
ROLE_BINDINGS = ApiResource(group="rbac.authorization.k8s.io", plural="rolebindings", kind="RoleBinding")
JOBS = ApiResource(group="batch", plural="jobs", kind="Job")
RULES_REVIEWS = ApiResource(
    group="authorization.k8s.io", plural="selfsubjectrulesreviews", kind="SelfSubjectRulesReview", is_namespaced=False
)
