"""The interface to cluster managers, and one package for each of them.

`shipping/` builds the archives that bring tony to nodes where it is not installed; `job_store/` keeps the job
directory where nodes and clients reach it.
"""
