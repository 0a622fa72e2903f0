"""The cluster without sockets, clock or threads.

Map: `cluster_state` is all of it, `settings` what it is configured with. `controller` decides
(`topics`, `rules`), `image` is what it publishes, `log`, `replication`, `groups` and `transactions`
are the parts; `group_coordinator` writes groups into their topic and reads them from there,
`journal` and `persistence` keep the rest on disk. `loading` is what keeps coordinators from
answering. `fetch_sessions` are KIP-227's, `retention` deletes, `scenes` do harm on purpose,
`agreement` checks that replicas agree. `refused` is what handlers catch.
"""
