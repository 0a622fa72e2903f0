"""The transaction coordinators: ids, steps, markers (KIP-98, KIP-890).

Map: `coordinator` holds every `transaction`; `producer_ids`, `markers`;
`persistence` makes journal entries of them.
"""
