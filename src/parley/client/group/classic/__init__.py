"""A member of a group by the classic protocol: JoinGroup, SyncGroup, Heartbeat, LeaveGroup; Kafka
0.9 and later.

Map: `membership` decides, without clock, socket or task; `reactions` is the table of what each
error makes of it; `requests` has the messages. `member` sends them, in two tasks: one joins, one
keeps the membership alive; `leader` shares the partitions out where this member leads.
"""
