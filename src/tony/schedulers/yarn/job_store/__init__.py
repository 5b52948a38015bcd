"""The job directory in HDFS: written by the AM, read by later AM attempts and clients."""
