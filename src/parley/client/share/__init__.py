"""Consumers of share groups (KIP-932), asynchronous and blocking.

Map: `async_consumer` and `consumer` have one `core`, which hands out records and takes what becomes
of them; `exchange` sends one request at a time to each broker; `fetched` decodes what came.
`options` and, for type checkers, `option_values`.
"""
