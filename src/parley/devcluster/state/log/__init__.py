"""A replica and its log: batches in segments, epochs, and what producers left in it.

Map: `log` is made of `segment`s in a `bytestore`; `batches` reads headers, `appending` checks what
was sent, `epochs` and `producers` are kept beside it, `transactions` are those open on the
partition, `times` finds offsets by time. `compaction` says what stays of batches, `cleaning`
replaces segments by it. `replica` is all of one partition on one broker, `selection` which of them
a consumer reads from.
"""
