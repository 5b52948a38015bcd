"""Logs of YARN's containers, wherever they are: at the NodeManager while it runs, aggregated in HDFS afterwards."""
