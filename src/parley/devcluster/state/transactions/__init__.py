"""The transaction coordinators: ids, steps, markers (KIP-98, KIP-890)."""
