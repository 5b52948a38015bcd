"""The capabilities of the YARN scheduler."""

from tony.schedulers.interface import Capabilities

CAPABILITIES = Capabilities(
    gang=False,
    recover=False,
    gpus=True,
    same_host=False,
    inherits_environment=False,
    log_files=False,
    chooses=True,
    images=True,
)
