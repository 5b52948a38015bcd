"""The capabilities of the Kubernetes scheduler."""

from tony.schedulers.capabilities import Capabilities, RoleSetting

CAPABILITIES = Capabilities(
    gang=False,
    same_host=False,
    same_folder=False,
    chooses=True,
    enlists=True,
    keeps_output=True,
    history_expires=True,
    honours=frozenset(RoleSetting),
    cluster_ids=r"kubernetes-\d{8}-\d{6}-[0-9a-f]{6}",
)
