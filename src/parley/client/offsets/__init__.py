"""Offsets and leader epochs that brokers know, and those that groups have committed.

Map: `list_offsets` by place and time, `leader_epochs` in the leaders' logs, `committed` by groups;
`commit_parts` is what commits have in common, in and outside of transactions; `unknown_partitions`
says which are missing, and which a coordinator only does not know yet.
"""
