"""The probes of the compatibility suite: one per feature, sent to a real broker."""
