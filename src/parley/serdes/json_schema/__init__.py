"""JSON values and JSON Schema.

Map: `shapes` reads what a schema says about columns, `reading` and `writing` take values there and
back, `derive` makes a schema of a column's type; `format` is all of it as a format of values.
"""
