"""Producers for applications, which send record by record, asynchronous and blocking.

Map: `async_producer` and `producer` share `core`; `options` and, for type checkers,
`option_values`; `record` is one record on its way in: interceptors, serializers, checks.
`transaction` ties records to a transactional producer, `failures` reports those that failed.
"""
