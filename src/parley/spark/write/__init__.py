"""The sink: rows into Kafka at least once, or exactly once by transactions that the driver commits.

`docs/proof/exactly-once.md` tells the design from one end to the other.
"""
