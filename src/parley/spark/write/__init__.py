"""The sink: rows into Kafka at least once, or exactly once by transactions that the driver commits.

`docs/proof/exactly-once.md` describes the design from one end to the other.

Map: `writer` is what Spark calls, `options` what it was given, `rows` what it writes, `encoding`
(as `encoding_options` say) what messages are made of. Exactly once:
`driver` and `attempt` act, `decisions`, `intent` and `turns` are pure, `messages` go between them,
`interfaces` what they need of Kafka and `kafka` gives it. `prefix` names a query, `sealed` spares
imports.
"""
