"""An embedded cluster's listeners: by name, with a security each, the same on every broker."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from parley.devcluster.security.certificates import CertificateAuthority
from parley.devcluster.security.security import ListenerSecurity, Security
from parley.errors import ConfigError, nearest_hint
from parley.versions.releases import Release


class Listeners:
    """A cluster's listeners in order; the first is the one whose address stands for its broker.

    All that speak TLS with certificates made here trust one certificate authority.
    """

    def __init__(self, wanted: Mapping[str, Security], host: str) -> None:
        if not wanted:
            raise ConfigError("a broker without a listener cannot be reached; name at least one")
        self._of: dict[str, ListenerSecurity] = {}
        authority: CertificateAuthority | None = None
        for name, security in wanted.items():
            self._of[name] = ListenerSecurity(security, host, authority)
            authority = authority or self._of[name].authority

    def __iter__(self) -> Iterator[str]:
        return iter(self._of)

    def __len__(self) -> int:
        return len(self._of)

    @property
    def first(self) -> str:
        """The name of the first listener."""
        return next(iter(self._of))

    def of(self, name: str | None) -> ListenerSecurity:
        """Return a listener (None: the first). Raises ConfigError where that name is not."""
        found = self._of.get(self.first if name is None else name)
        if found is None:
            raise ConfigError(f'there is no listener "{name}".{nearest_hint(str(name), self._of)}')
        return found

    def check(self, release: Release) -> None:
        """Raise ConfigError where a broker of the release could not serve one of the listeners."""
        for listener in self._of.values():
            listener.mechanisms_of(release)

    def trusted(self) -> ListenerSecurity:
        """Return the first listener with a certificate authority; the first of all without one."""
        return next((one for one in self._of.values() if one.authority is not None), self.of(None))


def wanted_listeners(
    security: Security | None, listeners: Mapping[str, Security] | None
) -> Mapping[str, Security]:
    """Return the listeners that a cluster's arguments ask for; ConfigError for both at once."""
    if listeners is None:
        one = security or Security()
        return {one.protocol: one}
    if security is not None:
        raise ConfigError(
            "security is what the only listener wants; with listeners= each of them has its own"
        )
    return dict(listeners)


def listener_texts(addresses: Mapping[str, tuple[str, int]]) -> str:
    """Return addresses by listener as Kafka writes them.

    >>> listener_texts({"PLAINTEXT": ("127.0.0.1", 9092), "SSL": ("127.0.0.1", 9093)})
    'PLAINTEXT://127.0.0.1:9092,SSL://127.0.0.1:9093'
    """
    return ",".join(f"{name}://{host}:{port}" for name, (host, port) in addresses.items())


def ports_of(
    first: int | None, broker_ids: Sequence[int], listeners: Sequence[str]
) -> dict[int, dict[str, int]]:
    """Return the port of every listener of every broker; 0, a free one, without a first port.

    The first listener has consecutive ports, broker by broker; then come those of the second one.

    >>> ports_of(9092, [1, 2], ["PLAINTEXT", "SSL"])
    {1: {'PLAINTEXT': 9092, 'SSL': 9094}, 2: {'PLAINTEXT': 9093, 'SSL': 9095}}
    """
    if first is None:
        return {broker: dict.fromkeys(listeners, 0) for broker in broker_ids}
    last = first + len(broker_ids) * len(listeners) - 1
    if last > 65535:
        raise ConfigError(
            f"{len(broker_ids)} brokers from port {first} on need ports up to {last}; 65535 "
            "is the last"
        )
    return {
        broker: {name: first + k * len(broker_ids) + i for k, name in enumerate(listeners)}
        for i, broker in enumerate(broker_ids)
    }
