"""Consumer groups of the classic protocol, as a member and as the leader among members.

Map: `formats` are the bytes that members write for each other, `assignors` decide who reads what.
"""
