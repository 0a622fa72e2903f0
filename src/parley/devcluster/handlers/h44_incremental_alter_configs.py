"""IncrementalAlterConfigs (44), v0-1.

Behaviours:
- Sets, deletes, appends to and subtracts from single settings (KIP-339); the others stay. Resources
  as in AlterConfigs.
- Appending and subtracting is for lists only: INVALID_CONFIG in KRaft releases, INVALID_REQUEST
  before; 2.3 and 2.4 fail (UNKNOWN_SERVER_ERROR) where the topic does not set the list itself.

Version notes:
- v1 flexible.

Not implemented: loggers and metrics (INVALID_REQUEST); other settings of groups than `share.*` are
kept and shown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from parley.devcluster.handlers.altering import Change, alter_each
from parley.devcluster.handlers.base import Answer, Call, Handler
from parley.devcluster.handlers.mirror import top
from parley.devcluster.release.configs import Configs
from parley.devcluster.state.refused import Refused
from parley.errors.codes import INVALID_CONFIG, INVALID_REQUEST, UNKNOWN_SERVER_ERROR
from parley.messages import IncrementalAlterConfigsRequest
from parley.schema import ApiKey, VersionRange

SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3


def handle(call: Call, request: IncrementalAlterConfigsRequest) -> Answer:
    """Change single settings of each resource."""
    not_list = INVALID_REQUEST if call.profile.behaviour.names_controller else INVALID_CONFIG
    return alter_each(
        call, request, _changes(not_list, fragile=call.profile.behaviour.fragile_appends)
    )


def _changes(
    not_list: int, *, fragile: bool
) -> Callable[[IncrementalAlterConfigsRequest.AlterConfigsResource], Change]:
    def change_of(asked: IncrementalAlterConfigsRequest.AlterConfigsResource) -> Change:
        def change(present: Mapping[str, str], known: Configs) -> dict[str, str]:
            configs = dict(present)
            if fragile:
                _check_fragile(present, known, asked)
            for config in asked.configs:
                _apply(configs, known, config, not_list)
            return configs

        return change

    return change_of


def _check_fragile(
    present: Mapping[str, str],
    known: Configs,
    asked: IncrementalAlterConfigsRequest.AlterConfigsResource,
) -> None:
    """Fail where the first releases with this API do: on null, and on lists that the
    topic itself does not set.
    """
    for config in asked.configs:
        is_list = config.name in known and known[config.name].type == "list"
        to_list = (
            is_list and config.config_operation in (APPEND, SUBTRACT) and config.name not in present
        )
        if to_list:
            raise Refused(UNKNOWN_SERVER_ERROR, f"key not found: {config.name}")
        if config.value is None and config.config_operation != DELETE:
            raise Refused(UNKNOWN_SERVER_ERROR, None)  # a failure that they do not explain


def _apply(
    configs: dict[str, str],
    known: Configs,
    asked: IncrementalAlterConfigsRequest.AlterableConfig,
    not_list: int,
) -> None:
    name, value = asked.name, asked.value
    if asked.config_operation not in (SET, DELETE, APPEND, SUBTRACT):
        raise Refused(INVALID_REQUEST, f"Unknown operation {asked.config_operation} for {name}")
    if asked.config_operation == DELETE:
        configs.pop(name, None)
        return
    if value is None:
        raise Refused(INVALID_REQUEST, f"Null value not supported for : {name}")
    if asked.config_operation == SET:
        configs[name] = value
        return
    config = known.get(name)
    if config is None or config.type != "list":
        raise Refused(
            not_list, f"Config value append or subtract is not allowed for config key: {name}"
        )
    held = [entry for entry in configs.get(name, config.default or "").split(",") if entry]
    given = [entry.strip() for entry in value.split(",")]
    if asked.config_operation == APPEND:
        held += [entry for entry in given if entry not in held]
    else:
        held = [entry for entry in held if entry not in given]
    configs[name] = ",".join(held)


API = Handler(ApiKey.INCREMENTAL_ALTER_CONFIGS, VersionRange(0, 1), handle, top)
