"""What stands in options, offsets and columns: times, numbers, JSON, the schema. Pure."""
