"""Protobuf schemas and messages.

Schemas are compiled here from their texts: `protobuf`, the package, cannot, and registries keep
texts. (Confluent's answers with descriptors if asked, others do not; protoc is a compiler in C++
that wants files.)

Map: `tokens` are what a text is made of, `parse` makes a descriptor of them with `parse_options`
and `parse_others`, `link` finds which types are meant, `printing` is the way back. `files` makes
one pool of a schema and its references, with those of `builtin`. `format` is all of it as a format
of values: `columns` are Arrow's types and `derive` the way back, `reading` and `writing` messages,
`column_values` makes values of columns.
"""
