"""The capabilities of the local scheduler."""

from tony.schedulers.capabilities import Capabilities

CAPABILITIES = Capabilities(gang=True, same_host=True, same_folder=True)
