"""Groups between the two protocols: live ones change from one to the other and have members of both
(H24).

Map: `registry` says which protocol a group has, and changes it; `conversion` makes a group of one
kind out of one of the other, `members` answers members of the classic protocol in a group of the
consumer protocol, `formats` reads and writes what such members say in bytes.
"""
