"""What it can do."""

from tony.schedulers.capabilities import Capabilities

CAPABILITIES = Capabilities(gang=False, same_host=False, same_folder=True, enlists=True)
