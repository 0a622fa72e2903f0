"""Rows that become visible together or not at all (KIP-98, KIP-447, KIP-890).

Map: `calls` is `client.transactions`; `async_producer` and `producer` are the producers, `options`
theirs, `block` runs a transaction around a caller's code. `state` says what comes next and
`decisions` what an error does; `driver` sends it (`requests`), `contents` is what is written,
`writer` writes it, `topics` notices recreation. `handover` ends what another process began;
`listing` lists.
"""
