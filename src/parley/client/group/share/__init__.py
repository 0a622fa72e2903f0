"""A member of a share group (KIP-932): records are shared out one by one, and acknowledged so.

Map: Who is a member: `membership` decides, `heartbeat` has the request, `member` sends it. What is
read: `session` counts what each broker knows of this member, `wire` has its requests and answers,
`acquired` says which of the records that come are this member's, `book` keeps what it owes for
them, and `reactions` is the table of errors. Only `member` does anything; all else is pure.
"""
