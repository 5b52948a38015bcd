"""Hadoop's messages and their bytes; no connections here."""
