"""The coordinators of all groups: what they know stands in the topic `__consumer_offsets`.

Map: `topic` creates the topic, finds leaders and appends, `replay` reads a log again,
`coordinator` writes what groups say, and takes over the groups of a partition that moved.
"""
