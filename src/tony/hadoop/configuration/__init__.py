"""Hadoop's own configuration files, as Hadoop reads them."""

from tony.hadoop.configuration.errors import ConfigurationError as ConfigurationError
from tony.hadoop.configuration.settings import Configuration as Configuration
from tony.hadoop.configuration.settings import Setting as Setting

__all__ = ["Configuration", "ConfigurationError", "Setting"]
