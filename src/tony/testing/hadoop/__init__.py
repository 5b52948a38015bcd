"""Hadoop daemons that are played, with faults on order."""
