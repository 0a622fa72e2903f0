"""What makes a broker speak as its release: ranges, behaviours, settings.

Map: `behaviour` is what may differ, `profile` which release has which, and its ranges; `configs`
the settings a release describes, `config_texts` what they are for, `topic_configs` what it makes
of those of topics.
"""
