"""A member of a group by the consumer protocol (KIP-848): one heartbeat that says and learns
everything; Kafka 4.0.

Map: `membership` decides, without clock, socket or task; `reactions` is the table of what each
error makes of it; `heartbeat` has the request, which says only what is new. `member` sends it.
"""
