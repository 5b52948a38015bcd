"""Stages and submits jobs. How they are looked at afterwards: `jobs/`.

blocking, background    the door for scripts and notebooks; the event loop behind it
at_portal               the same door to jobs that a portal shows
printed                 output, as both give it
submission              checked, staged, recorded, handed over
staging, certificates   its files and its secrets
proxy                   ports of its tasks, served here
"""
