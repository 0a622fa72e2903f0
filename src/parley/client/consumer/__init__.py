"""Consumers of assigned partitions, asynchronous and blocking.

Map: `async_consumer` and `consumer` are the two faces of `core`; `options`; `records` decodes what is consumed next.
"""
