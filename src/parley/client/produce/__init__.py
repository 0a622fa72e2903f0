"""Writing rows: batches, sequences, what answers mean, what is sent again.

Map: `calls` is one call, `producer` who may write; `rows` makes batches, `state` queues them by
partition, `sequences` numbers them, `sender` sends them (`wire`) while `buffer_memory` has space.
`answers` says what came of one; `resend` and `rebatch` send again what cannot go as it is.
"""
