"""Reading: positions that know their history, and sessions that fetch what they point at.

Map: `positions` says where reading stands and `recreation` whether it is still the same topic;
`state` is one partition. `plan` decides who is asked for what; `fetcher` does it through `exchange`
(`wire`, `incremental`, `standing`) in `tasks`, and `flights` has what is under way; `answers` says
what came of it, `troubles` what follows a failure, `queue` holds bytes until `decode`, and `typed`
makes columns of their keys and values. `searching` has positions looked for: `position_requests`
and `out_of_range` ask. Owners: `bounded` (`ranges` makes one) and `assigned`.
"""
