"""Consumers of assigned partitions, asynchronous and blocking.

Map: `async_consumer` and `consumer` share `core`; `options`; `records` decodes what is consumed next.
"""
