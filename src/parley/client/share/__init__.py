"""Consumers of share groups (KIP-932), asynchronous and blocking.

Map: `async_consumer` and `consumer` have one `core`, which polls and takes what becomes of records;
`exchange` sends one request at a time to each of the `brokers`; `fetched` decodes what came, and
`hand_out` gives it to the application, as records or in batches; `reporting` reports what came of
acknowledgements. `options` and, for type checkers, `option_values`.
"""
