"""Consumers, members of a group or of assigned partitions, asynchronous and blocking.

Map: `async_consumer` and `consumer` share `core`, `polls` and `closing`; `options` and, for type
checkers, `option_values`; `assignment` has what is read, `placing` finds where to begin, `former`
whether that is of the topic that is there now; `records` decodes what is consumed next,
`deserializing` makes its keys and values, `stock` has what may be handed out. `group` ties a
consumer to its group: `participation` has its `reader` read what rebalances bring, by a `listener`;
`commits` commits, `last_commit` before partitions go to others; `subscription` is which topics are
read, `named_topics` looks whether they may be; `health` says how a member is.
"""
