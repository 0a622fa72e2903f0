"""Rows that become visible together or not at all (KIP-98, KIP-447, KIP-890)."""
