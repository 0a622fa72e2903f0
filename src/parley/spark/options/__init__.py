"""What a user gives to the data source: read, checked, and typed.

Map: `table` lists them, each a typed `row`; `texts` reads them, `kafka` those of the client.
`subscription` and `bounds` say what is read; `source` holds them all.
"""
