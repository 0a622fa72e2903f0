"""What only parley's own tests and tools use: golden bytes, hostile bytes,
virtual time. No wheel has it.
"""
