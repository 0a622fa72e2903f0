"""Which values the settings of groups may have: those between the bounds
that brokers set for them.
"""

from __future__ import annotations

from parley.devcluster.release.configs import BROKER, GROUP, Config, configs_of
from parley.devcluster.state.groups.share.settings import ISOLATION, RESET, is_reset
from parley.devcluster.state.refused import Refused
from parley.errors.codes import INVALID_CONFIG
from parley.versions.releases import Release

ISOLATION_LEVELS = ("read_committed", "read_uncommitted")


def check_group_config(release: Release, name: str, value: str) -> None:
    """Raise Refused (INVALID_CONFIG) where a release has no such setting of
    groups, or not with that value.
    """
    config = configs_of(release, GROUP).get(name)
    if config is None:
        raise Refused(INVALID_CONFIG, f"Unknown group config name: {name}")
    wrong = _wrong(release, config, value)
    if wrong:
        raise Refused(INVALID_CONFIG, f"Invalid value {value} for configuration {name}: {wrong}")


def _wrong(release: Release, config: Config, value: str) -> str:
    if not config.accepts(value):
        return f"Not a number of type {config.type.upper()}"
    if config.name == RESET and not is_reset(value):
        return "The value must be 'earliest', 'latest' or 'by_duration:<PnDTnHnMn.nS>'."
    if config.name == ISOLATION and value not in ISOLATION_LEVELS:
        return f"String must be one of: {', '.join(ISOLATION_LEVELS)}"
    if config.type == "int":
        least, most = (_bound(release, config.name, which) for which in ("min", "max"))
        if least is not None and int(value) < least:
            return f"Value must be at least {least}"
        if most is not None and int(value) > most:
            return f"Value must be at most {most}"
    return ""


def _bound(release: Release, name: str, which: str) -> int | None:
    """Return the brokers' own bound: that of share.session.timeout.ms is
    group.share.min.session.timeout.ms.
    """
    kind, _, rest = name.partition(".")
    config = configs_of(release, BROKER).get(f"group.{kind}.{which}.{rest}")
    return None if config is None or config.default is None else int(config.default)
