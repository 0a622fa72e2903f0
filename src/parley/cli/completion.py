"""What a shell may complete in options: releases, features, and where a list has got to."""

from __future__ import annotations

from collections.abc import Iterator

import typer


def complete_releases(incomplete: str) -> list[str]:
    """Return the measured releases that begin so, oldest first."""
    from parley.versions import releases

    return [name for name in releases() if name.startswith(incomplete)]


def complete_features(incomplete: str) -> Iterator[tuple[str, str]]:
    """Yield completions of the last name in a list with commas, with the KIP and first release."""
    from parley.versions import FEATURES, Feature

    done, comma, last = incomplete.rpartition(",")
    named = done.split(",")
    for feature in Feature:
        if feature.value.startswith(last) and feature.value not in named:
            need = FEATURES[feature]
            yield (
                f"{done}{comma}{feature.value}",
                f"{need.kip or 'no KIP'}, since Kafka {need.first_release}",
            )


def complete_broker_releases(incomplete: str) -> list[str]:
    """Return completions of `ID=RELEASE`; nothing before there is an id."""
    number, equals, name = incomplete.partition("=")
    return (
        [f"{number}={found}" for found in complete_releases(name)]
        if equals and number.isdecimal()
        else []
    )


def complete_protocol_words(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return what may follow `parley protocol`: a release, `diff` and two of them, or `pages`."""
    match ctx.params.get("words") or []:
        case []:
            return [
                word for word in ("diff", "pages") if word.startswith(incomplete)
            ] + complete_releases(incomplete)
        case ["diff"] | ["diff", _]:
            return complete_releases(incomplete)
        case _:
            return []


def complete_protocols(incomplete: str) -> list[str]:
    """Return the security protocols that begin so."""
    protocols = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
    return [name for name in protocols if name.startswith(incomplete)]


def complete_settings(incomplete: str) -> list[str]:
    """Return the settings for `--override` that begin so, with their equals sign."""
    from parley.cli.cluster_settings import SETTINGS, TOPIC_SETTINGS

    return [
        f"{name}=" for name in sorted([*SETTINGS, *TOPIC_SETTINGS]) if name.startswith(incomplete)
    ]


def complete_client_auth(incomplete: str) -> list[str]:
    """Return the values of `--client-auth`."""
    return [name for name in ("none", "requested", "required") if name.startswith(incomplete)]
