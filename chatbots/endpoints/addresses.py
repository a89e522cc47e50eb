"""Shared state of a process's endpoint bots at one address: connections, places, pauses, circuit breaker.

Ten bots at one address are one customer to it. So they wait together when it asks for patience, keep
together to the most requests at once, and together leave it alone for a while when it is down. HTTP errors, 429 too,
count for the model that was asked; refused connections, failed look-ups and TLS for the address, and so does a 429 that
says that the limit is the account's.

An address may be limited to public networks. The limit is checked at each connection, of the very IP address that is
then connected to: a name that leads elsewhere at the second look-up gains nothing. Redirects are never followed. Where
a proxy makes the connections, what it may reach is its own affair.
"""

from __future__ import annotations

import asyncio
import random
import socket
import threading
import weakref
from asyncio import sleep
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from time import monotonic
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from chatbots.bots.base import BotError, seconds_left

if TYPE_CHECKING:
    import anyio
    import httpx2

FAILURES_BEFORE_REST = 5
"""An address, or a model at one, that fails so often in a row is left alone."""
REST_S = 15.0
"""For so long; then one request tries it."""
LONGEST_PAUSE_S = 120.0
"""An address that asks for more patience is asked again after this."""
CONNECT_S = 5.0
"""A server that takes no connection in this time cannot be reached."""
JITTER = 0.25
"""Waits are longer by up to this share, so that not everybody comes back at once."""


class AddressRests(BotError):
    """A request was not made, because the address is down or asks for more patience than there is."""


class Customer(Protocol):
    """A bot that asks an address."""

    concurrency: int


@dataclass(slots=True)
class _Breaker:
    """Failures in a row, and the time until which no request is sent."""

    n_failed: int = 0
    reason: str = ""
    rests_until: float = 0.0


@dataclass(frozen=True, slots=True)
class _Pause:
    """Time until which an address or a model asks for no request, and its words."""

    until: float
    reason: str


class Address:
    """One address, as this process knows it.

    Its places are those of an event loop, of which a process that serves bots has one.
    """

    def __init__(self, url: str, *, public_only: bool = False) -> None:
        self.url = url
        self.public_only = public_only
        self.customers: weakref.WeakSet[Customer] = weakref.WeakSet()
        self._lock = threading.Lock()
        self._pauses: dict[str | None, _Pause] = {}  # as `_breakers`
        self._breakers: dict[str | None, _Breaker] = {}  # None: of the address, whichever model
        self._of_loops: dict[asyncio.AbstractEventLoop, tuple[httpx2.AsyncClient, anyio.CapacityLimiter]] = {}

    @asynccontextmanager
    async def client(self, model: str) -> AsyncIterator[httpx2.AsyncClient]:
        """Wait for a place for one request of a model and give the client; the place is free again when the block ends.

        A pause that the address asked for is waited out.

        Raises:
            AddressRests: the address, or this model there, failed too often and is left alone for a while.
        """
        client, limiter = self._of_loop()
        # Where the bots name different numbers, the smallest holds.
        limiter.total_tokens = min((bot.concurrency for bot in self.customers), default=1)
        place = object()
        await limiter.acquire_on_behalf_of(place)
        try:
            self._look(model)
            for key in (model, None):
                pause = self._pauses.get(key)
                if pause is not None:
                    await wait(pause.until - monotonic(), pause.reason)
            yield client
        finally:
            limiter.release_on_behalf_of(place)

    def answered(self, model: str) -> None:
        """Record that the model answered, whatever it said: it and the address can be reached."""
        with self._lock:
            self._breakers.pop(None, None)
            self._breakers.pop(model, None)

    def failed(self, reason: str, model: str | None) -> None:
        """Record a failure of one model, or, with None, of the address; after several, it rests for a while.

        A broken model must take no turns from the other models of its address.
        """
        with self._lock:
            if model is not None:  # the address itself can be reached
                self._breakers.pop(None, None)
            breaker = self._breakers.setdefault(model, _Breaker())
            breaker.n_failed += 1
            breaker.reason = reason
            if breaker.n_failed >= FAILURES_BEFORE_REST:
                breaker.rests_until = monotonic() + REST_S

    def pause(self, seconds: float, model: str | None, reason: str) -> None:
        """Send nothing to one model, or with None to the address, because the server asked for it in these words.

        After `LONGEST_PAUSE_S` it is asked again.
        """
        until = monotonic() + min(seconds, LONGEST_PAUSE_S)
        name = self.url if model is None else f"the model {model} at {self.url}"
        reason = f"{name} asks for patience ({reason})"
        with self._lock:
            if model not in self._pauses or until > self._pauses[model].until:
                self._pauses[model] = _Pause(until, reason)

    def _look(self, model: str) -> None:
        with self._lock:
            now = monotonic()
            for key in (model, None):
                breaker = self._breakers.get(key)
                if breaker is None or breaker.n_failed < FAILURES_BEFORE_REST:
                    continue
                if now >= breaker.rests_until:
                    breaker.rests_until = now + REST_S  # this one tries it; nobody else does meanwhile
                    continue
                target = self.url if key is None else f"the model {model} at {self.url}"
                raise AddressRests(
                    f"{target} failed {breaker.n_failed} times in a row ({breaker.reason}) and is "
                    f"paused; Confab tries again in {max(1, round(breaker.rests_until - now))} s"
                )

    def _of_loop(self) -> tuple[httpx2.AsyncClient, anyio.CapacityLimiter]:
        """Return the client and the places of the running event loop; connections cannot move between loops."""
        import anyio
        import httpx2

        loop = asyncio.get_running_loop()
        with self._lock:
            for closed_loop in [known_loop for known_loop in self._of_loops if known_loop.is_closed()]:
                del self._of_loops[closed_loop]
            if loop not in self._of_loops:
                # The places are the limit; the client's own would only be a second queue.
                limits = httpx2.Limits(max_connections=None, keepalive_expiry=30)
                client = httpx2.AsyncClient(limits=limits, follow_redirects=False)
                if self.public_only:
                    client._transport._pool._network_backend = _public_network()  # type: ignore[attr-defined]
                self._of_loops[loop] = client, anyio.CapacityLimiter(1)
            return self._of_loops[loop]


_NAT64 = ip_network("64:ff9b::/96")
_NEVER_PUBLIC = tuple(
    ip_network(network)
    for network in (
        "168.63.129.16/32",  # Azure's WireServer
        "192.0.0.0/24",  # protocol assignments, among them Oracle's older metadata service
        "64:ff9b:1::/48",  # NAT64 of a local network
        "::/96",  # IPv4 inside IPv6, in two old forms
        "::ffff:0:0/96",
        "::ffff:0:0:0/96",  # SIIT
        "fec0::/10",  # site-local
    )
)
"""Networks that `ipaddress` calls global, and that lead into a private one."""


def is_public(ip: str) -> bool:
    """Return True if an IP address is one of the public internet: not of this machine, nor of a private network."""
    address: IPv4Address | IPv6Address = ip_address(ip.partition("%")[0])
    if address in _NAT64:  # the address behind it counts: networks with IPv6 alone reach the whole internet by it
        address = IPv4Address(int(address) & 0xFFFFFFFF)
    inner = getattr(address, "sixtofour", None) or address
    if any(inner in network or address in network for network in _NEVER_PUBLIC):
        return False
    return inner.is_global and not inner.is_multicast and not address.is_multicast


def private_refusal(host: str, ips: Iterable[str]) -> str:
    """Explain that a host may not be asked because one of its IP addresses is not public; empty if all are."""
    private = next((ip for ip in ips if not is_public(ip)), None)
    if private is None:
        return ""
    ip_note = "" if host == private else f" ({private})"
    return (
        f"{host}{ip_note} is an address of this machine or of a private network; ask your administrator "
        "to allow these with CONFAB_PRIVATE_ADDRESSES"
    )


def _public_network() -> Any:
    """Make the network of a client that connects to public addresses alone."""
    import httpcore2
    from anyio import getaddrinfo

    class PublicNetwork(httpcore2.AsyncNetworkBackend):
        def __init__(self) -> None:
            self._open = httpcore2.AnyIOBackend()

        async def connect_tcp(self, host: str, port: int, *args: Any, **kwargs: Any) -> Any:
            try:
                address_infos = await getaddrinfo(host, port, type=socket.SOCK_STREAM)
            except OSError as error:
                raise httpcore2.ConnectError(str(error)) from error
            ips = [str(address_info[4][0]) for address_info in address_infos]
            if reason := private_refusal(host, ips):
                raise httpcore2.ConnectError(reason)
            for ip in ips[:-1]:
                with suppress(httpcore2.ConnectError, httpcore2.ConnectTimeout):
                    return await self._open.connect_tcp(ip, port, *args, **kwargs)
            return await self._open.connect_tcp(ips[-1], port, *args, **kwargs)

    return PublicNetwork()


def refusal(url: str, *, public_only: bool = False) -> str:
    """Explain why no connection to the server of an address can be made.

    Empty if one can, or if a proxy makes it.
    """
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
    if parts.scheme in getproxies() and not proxy_bypass(host):
        return ""
    try:
        if public_only:
            ips = [str(address_info[4][0]) for address_info in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
            if reason := private_refusal(host, ips):
                return reason
            host = ips[0]
        socket.create_connection((host, port), timeout=CONNECT_S).close()
    except OSError as error:
        return f"{host}:{port} cannot be reached ({error.strerror or error})"
    return ""


def format_wait(seconds: float) -> str:
    """Return a length of time in the unit that suits it."""
    if seconds < 2 * 60:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 2 * 3600 else f"{seconds / 3600:.0f} h"


async def wait(seconds: float, reason: str) -> None:
    """Wait so long, and a little longer by chance.

    Raises:
        AddressRests: at once, if the reply's deadline comes before.
    """
    if seconds <= 0:
        return
    left_s = seconds_left()
    if seconds >= left_s:
        raise AddressRests(
            f"{reason}; the next request can be sent in {seconds:.0f} s, but the reply is due in "
            f"{max(0.0, left_s):.0f} s"
        )
    longer = seconds * (1 + JITTER * random.random())
    await sleep(longer if longer < left_s else seconds)


_addresses: weakref.WeakValueDictionary[tuple[str, bool], Address] = weakref.WeakValueDictionary()
_addresses_lock = threading.Lock()


def address_of(url: str, customer: Customer, *, public_only: bool = False) -> Address:
    """Return the one address of this URL and count `customer` among the bots that ask it.

    The address is forgotten together with the last of them.
    """
    url = url.rstrip("/")
    with _addresses_lock:
        address = _addresses.get((url, public_only))
        if address is None:
            address = _addresses[url, public_only] = Address(url, public_only=public_only)
        address.customers.add(customer)
    return address
