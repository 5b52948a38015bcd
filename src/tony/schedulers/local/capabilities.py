"""The capabilities of the local scheduler."""

from tony.schedulers.interface import Capabilities

CAPABILITIES = Capabilities(
    gang=True, recover=False, gpus=True, same_host=True, inherits_environment=True, log_files=True
)
