"""The capabilities of the YARN scheduler."""

from tony.schedulers.capabilities import Capabilities, RoleSetting

CAPABILITIES = Capabilities(
    gang=False,
    same_host=False,
    same_folder=False,
    chooses=True,
    honours=frozenset(RoleSetting),
    cluster_ids=r"application_\d+_\d+",
)
