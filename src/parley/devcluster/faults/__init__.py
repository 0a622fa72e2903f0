"""Faults on request, and the journal of what clients asked.

Map: `calls` is what a cluster offers, `faults` what is asked for, `tampering` what it does to a
request; `asked` is what a request asks about, `requests` the journal. `cut_off` answers for a
broker that hears no other.
"""
