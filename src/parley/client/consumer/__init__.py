"""Consumers, members of a group or of assigned partitions, asynchronous and blocking.

Map: `async_consumer` and `consumer` share `core`; `options` and, for type checkers,
`option_values`; `assignment` has the partitions that are read, and `placing` finds where to begin,
`former` whether that is of the topic that is there now;
`records` decodes what is consumed next, `deserializing` makes its keys and values, and `stock` has
what may be handed out. `group` ties a consumer to its group: `participation` shows it what
rebalances bring, by its `listener`, and `commits` commits; `last_commit` does it before partitions
go to others; `named_topics` looks whether what is subscribed to may be read; `closing` is what both
consumers' ends have in common.
"""
