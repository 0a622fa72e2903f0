"""Consumer groups, as a member and as the leader among members.

Map: `formats` are the bytes that members write for each other, `assignors` decide who reads what.
`classic` is the protocol of JoinGroup and SyncGroup, `modern` that of KIP-848, `share` that of
share groups (KIP-932). Whatever the protocol: `member` is what a consumer needs, `coordinator` is
the way to a group's, `pace` the two clocks of a member, `steps` what it lets the application see;
`topic_names` what is meant by ids of topics; `bell` wakes a task.
"""
