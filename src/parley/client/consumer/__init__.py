"""Consumers of assigned partitions, asynchronous and blocking."""
