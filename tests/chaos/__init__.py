"""Exactly once under kill -9: see run.py."""
