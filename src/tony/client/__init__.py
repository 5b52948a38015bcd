"""Stages, submits and follows jobs."""
