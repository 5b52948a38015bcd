"""The targets: a module for each part of the program."""
