"""Leaders and followers inside one process, and the links between them.

Map: `replication` moves appends and images along `links`; `broker_state` is what one broker holds,
`ledger` what was acknowledged.
"""
