"""AlterConfigs (33), v0-2.

Behaviours:
- Replaces all settings of a topic, or all dynamic ones of the broker that is asked or of every
  broker (the empty name, 1.1+); those left out return to their defaults.
- Settings of topics are checked by what the release knows; those of brokers by whether they can
  change while it runs.
- Those of groups (4.0+) too, whether the group exists or not; `share.*` take effect
  (`group_settings`).

Version notes:
- v2 flexible.

Not implemented: loggers and metrics (INVALID_REQUEST); other settings of groups than `share.*` are
kept and shown.
"""

from __future__ import annotations

from collections.abc import Mapping

from parley.devcluster.handlers.altering import Change, alter_each
from parley.devcluster.handlers.base import Answer, Call, Handler
from parley.devcluster.handlers.mirror import top
from parley.devcluster.release.configs import Configs
from parley.devcluster.state.refused import Refused
from parley.errors.codes import INVALID_REQUEST
from parley.messages import AlterConfigsRequest
from parley.schema import ApiKey, VersionRange


def handle(call: Call, request: AlterConfigsRequest) -> Answer:
    """Replace the settings of each resource."""
    return alter_each(call, request, _change)


def _change(asked: AlterConfigsRequest.AlterConfigsResource) -> Change:
    def change(present: Mapping[str, str], known: Configs) -> dict[str, str]:
        for config in asked.configs:
            if config.value is None:
                raise Refused(INVALID_REQUEST, f"Null value not supported for : {config.name}")
        return {config.name: config.value for config in asked.configs if config.value is not None}

    return change


API = Handler(ApiKey.ALTER_CONFIGS, VersionRange(0, 2), handle, top)
