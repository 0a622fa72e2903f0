"""What a client, its reads, writes and calls may be given: declared once, checked before use.

Map: `fields` is how options are declared, `java_names` those that only Java has; `client_options`,
`security` and `jaas` are those of clients, reads and writes, `schema_options` those of schemas,
`values` the same for type checkers. `security_arguments` and `token_sources` make connections of
them. `arguments` checks what calls are given.
"""
