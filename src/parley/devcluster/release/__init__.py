"""What makes a broker speak as its release: ranges, behaviours, settings.

Map: `profile` has ranges and behaviours; `configs` the settings a release describes, `config_texts`
what they are for.
"""
