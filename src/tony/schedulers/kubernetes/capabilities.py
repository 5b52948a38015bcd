"""The capabilities of the Kubernetes scheduler."""

from tony.schedulers.capabilities import Capabilities, RoleSetting

CAPABILITIES = Capabilities(
    gang=False,
    same_host=False,
    same_folder=False,
    chooses=True,
    enlists=True,
    keeps_output=True,
    honours=frozenset(RoleSetting),
)
