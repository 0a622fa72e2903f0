"""Groups of the classic protocol: members join and sync, one of them assigns.

Map: `registry` has all groups and writes them (`persistence`); `group` is the machine
of one, `members` are its members, `parked` the answers that they wait for.
"""
