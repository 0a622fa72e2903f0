"""What outlives brokers that are away: every kind of reader and writer,
beside Spark's own connector.
"""
