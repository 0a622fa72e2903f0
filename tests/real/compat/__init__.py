"""The probes of the compatibility suite: one per feature, told to a real broker."""
