"""JSON values and JSON Schema.

Map: `shapes` reads what a schema says about columns, `references` finds what a `$ref` names.
`reading` and `writing` take values there and back, `numbers` as they are written where that is
kept; `native` makes plans for the compiled decoder and `native_writing` for the compiled writer,
`derive` a schema of a column's type; `format` is all of it as a format of values.
"""
