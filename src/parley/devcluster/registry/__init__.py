"""A schema registry beside the brokers: Confluent's REST protocol, kept in the topic `_schemas`.

Map: `server` is `cluster.schema_registry`: it listens, and hands requests to `rest`, which acts on
the `store` of `subjects`. `rules` says what may follow what, `protobuf` reads schemas of that kind;
`schemas_topic` keeps all of it, as `events` that Confluent's registry would read. `refusals` are
the errors.
"""
