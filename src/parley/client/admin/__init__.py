"""Changes of the cluster, and what an operator asks it: topics, consumer groups.

Map: `topics` creates and deletes them, through the controller. Of groups, `groups` lists and
deletes them, `described_groups` says who is in them, `group_members` takes members out,
`group_offsets` reads and changes what they committed, `group_lag` says how far behind they are.
`outcomes` is what all of them do with errors, `calls` makes methods of them.
"""
