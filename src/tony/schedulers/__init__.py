"""The interface to cluster managers, and one package for each of them.

`shipping/` builds the archives that bring tony to nodes where it is not installed.

`cluster_files` and `cluster_store` serve jobs of every scheduler: files in a Hadoop cluster that a job names by URI.
"""
