"""Hadoop's own configuration files, as Hadoop reads them."""

from tony.hadoop.configuration.settings import HadoopConfiguration as Configuration
from tony.hadoop.configuration.settings import HadoopSetting as Setting
from tony.hadoop.configuration.xml_file import ConfigurationError as ConfigurationError
from tony.hadoop.configuration.xml_file import Property as Property
from tony.hadoop.configuration.xml_file import properties_of as properties_of

__all__ = ["Configuration", "ConfigurationError", "Property", "Setting", "properties_of"]
