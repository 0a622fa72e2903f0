"""What stands in options, offsets and columns: times, numbers, JSON, the schema. Pure.

Map: `offsets`, `schema`, `struct_types`, `envelopes`, `arrow_batches`, `moments`, `timestamps`,
`numbers`, `user_json`, `java_regex`.
"""
