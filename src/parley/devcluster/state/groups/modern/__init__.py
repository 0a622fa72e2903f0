"""Groups of the consumer protocol (KIP-848): the broker assigns, members only heartbeat.

Map: `registry` has all groups and writes them (`persistence`); `group` answers the `heartbeats` of
one, `members` are its members and the checks of their epochs, `reconciliation` leads one member to
its target, `assignors` compute targets.
"""
