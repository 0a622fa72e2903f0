"""Writing rows and records: batches, sequences, what answers mean, what is sent again.

Map: `calls` is one call, `producer` who may write, `plans` where; `rows` makes batches, `state`
queues them by partition, `sequences` numbers them, `sender` sends them (`requests`, `wire`) while
`buffer_memory` has space; `ready` says where to look, and `joining` makes one of small ones that
wait. `answers` says what came of one; `resend` and `rebatch` send again what cannot go as it is.
Records: `record_writer` takes them into chunks (`chunk`, `accumulator`), which are closed as
`shares` lets them; `handing_over` has `record_batches` make batches of these, where `record_topics`
and `partitioners` say. `under_way` knows what the end of the process would lose.
"""
