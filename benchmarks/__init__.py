"""Benchmarks side by side in one run: `python -m benchmarks.run` (see run.py)."""
