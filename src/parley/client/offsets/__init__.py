"""Offsets and leader epochs that brokers know, and those that groups have committed."""
