"""Groups, as their coordinators know them: committed offsets, and members.

Map: `offsets` are the committed ones, `pending_offsets` those of open transactions, `expiry` says
how long they are kept; `records` is how groups and offsets are written, `record_parts` what records
of two protocols have in common, `xxh3` what they hash topics with. `classic` and `modern` are
groups with members, of the classic and of the consumer protocol, `mixed` changes live ones from one
to the other; `share` are share groups, with their records in flight.
"""
