"""What the scheduler of `test_log_fetcher.py` can do: its logs are on other machines."""

from dataclasses import replace

from tony.schedulers.local import capabilities

CAPABILITIES = replace(capabilities.CAPABILITIES, same_folder=False)
