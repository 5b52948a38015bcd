"""HDFS over HTTP, for jobs of every scheduler: clients, tokens, files named by URI, and histories."""
