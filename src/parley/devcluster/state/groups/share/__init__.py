"""Share groups (KIP-932): members share partitions record by record; leaders keep who has which.

Map: `registry` has all groups and share partitions; groups are written as `records`, what is in
flight is kept in the journal (`persistence`). `group` answers the heartbeats of one group,
`assignor` gives its members partitions; `partition` has the states of the records in flight, as
`runs`; `sessions` are the share sessions of one broker, `settings` the `share.*` settings of a
group.
"""
