"""Offsets and leader epochs that brokers know, and those that groups have committed.

Map: `list_offsets` by place and time, `leader_epochs` in the leaders' logs, `committed` by groups;
`unknown_partitions` tells those that are missing from those that a coordinator does not know yet.
"""
