"""What a user gives to the data source: read, checked, and typed.

Map: `table` lists them, each a typed `row`; `texts` reads them, each as `single` says, `kafka`
those of the client. `subscription` and `bounds` say what is read, `schemas` how it is decoded
(rows: `schema_table`); `source` holds them all.
"""
