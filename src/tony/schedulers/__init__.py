"""The seam to cluster managers, and one module or package for each of them.

`cluster_files` is for jobs of any of them: the file systems of a Hadoop cluster, for what a job names there by address.
"""
