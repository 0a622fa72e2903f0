"""Reading: positions that know their history, and sessions that fetch what they point at.

Map: `positions` says where reading stands and `recreation` whether it is still the same topic;
`state` is one partition. `plan` decides who is asked for what; `fetcher` does it through `exchange`
(`wire`, `incremental`, `standing`), `answers` says what came of it, `queue` holds bytes until
`decode`, and `typed` makes columns of their keys and values. `position_requests` and
`out_of_range` ask about positions. Owners: `bounded` (`ranges` makes one) and `assigned`.
"""
