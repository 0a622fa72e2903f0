"""The cluster without sockets, clock or threads.

Map: `cluster_state` is all of it, `settings` what it is configured with, `dynamic_configs` what is
altered later. `controller` decides (`topics`, `rules`), `image` is what it publishes, `log`,
`replication`, `groups` and `transactions` are the parts; `broker_logs` makes logs.
`group_coordinator` writes groups into their topic and reads them from there, `journal`,
`persistence` and `keeper` keep the rest on disk. `loading` is what keeps coordinators from
answering. `fetch_sessions` are KIP-227's, `retention` deletes, `cleaner` compacts, by
`log_settings`. `scenes` do harm on purpose, `agreement` checks that replicas agree. `refused` is
what handlers catch.
"""
