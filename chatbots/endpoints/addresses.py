"""Shared state of a process's endpoint bots at one address.

Bots at one address are a single client to its server, so they share connections, the limit of concurrent requests,
requested pauses, and a circuit breaker. HTTP errors, including 429, count for the requested model. Refused connections,
failed look-ups, TLS errors and a 429 for the whole account count for the address.

An address may be restricted to public networks. Each connection checks the same IP address that it then connects to,
so DNS rebinding does not help an attacker. Redirects are never followed. Connections through a proxy are not checked;
the proxy has its own rules.
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
"""Number of consecutive failures that opens the circuit breaker of an address or model."""
REST_S = 15.0
"""Time in seconds until a single request tests it again."""
LONGEST_PAUSE_S = 120.0
"""Maximum pause, even if the server requests a longer one."""
CONNECT_S = 5.0
"""Timeout for connecting to a server."""
JITTER = 0.25
"""Maximum random increase of a wait, so that clients do not all return at once."""


class AddressRests(BotError):
    """Request not sent: the address is down or paused beyond the deadline."""


class Customer(Protocol):
    """Bot that sends requests to an address."""

    concurrency: int


@dataclass(slots=True)
class _Breaker:
    """Circuit breaker: number of consecutive failures and end of the pause."""

    n_failed: int = 0
    reason: str = ""
    rests_until: float = 0.0


@dataclass(frozen=True, slots=True)
class _Pause:
    """Pause requested by an address or model, with the server's message."""

    until: float
    reason: str


class Address:
    """State of one address in this process.

    The request limit belongs to an event loop, of which a process that serves bots has one.
    """

    def __init__(self, url: str, *, public_only: bool = False) -> None:
        self.url = url
        self.public_only = public_only
        self.customers: weakref.WeakSet[Customer] = weakref.WeakSet()
        self._lock = threading.Lock()
        self._pauses: dict[str | None, _Pause] = {}  # as `_breakers`
        self._breakers: dict[str | None, _Breaker] = {}  # None: for all models of the address
        self._of_loops: dict[asyncio.AbstractEventLoop, tuple[httpx2.AsyncClient, anyio.CapacityLimiter]] = {}

    @asynccontextmanager
    async def client(self, model: str) -> AsyncIterator[httpx2.AsyncClient]:
        """Yield the client once a request of this model may be sent.

        Waits for requested pauses and for a free request slot, which is released when the block ends.

        Raises:
            AddressRests: the circuit breaker of the address or model is open, or the pause exceeds the deadline.
        """
        client, limiter = self._of_loop()
        # If the bots have different limits, the smallest applies.
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
        """Record a response of the model, which shows that both can be reached."""
        with self._lock:
            self._breakers.pop(None, None)
            self._breakers.pop(model, None)

    def failed(self, reason: str, model: str | None) -> None:
        """Record a failure of a model or, with None, of the address.

        After several failures no requests are sent for a while. Models are counted separately, so that a broken one
        does not block the other models of its address.
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
        """Pause requests to a model or, with None, to the address.

        The pause lasts at most `LONGEST_PAUSE_S`; `reason` is the server's message.
        """
        until = monotonic() + min(seconds, LONGEST_PAUSE_S)
        name = self.url if model is None else f"the model {model} at {self.url}"
        reason = f"{name} asks clients to wait ({reason})"
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
                    breaker.rests_until = now + REST_S  # only this request tests it
                    continue
                target = self.url if key is None else f"the model {model} at {self.url}"
                raise AddressRests(
                    f"{target} failed {breaker.n_failed} times in a row ({breaker.reason}) and is "
                    f"paused; Confab tries again in {max(1, round(breaker.rests_until - now))} s"
                )

    def _of_loop(self) -> tuple[httpx2.AsyncClient, anyio.CapacityLimiter]:
        """Return the running event loop's client and limiter.

        Connections cannot move between loops.
        """
        import anyio
        import httpx2

        loop = asyncio.get_running_loop()
        with self._lock:
            for closed_loop in [known_loop for known_loop in self._of_loops if known_loop.is_closed()]:
                del self._of_loops[closed_loop]
            if loop not in self._of_loops:
                # The limiter is the only queue; the client's own limit would add another.
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
        "64:ff9b:1::/48",  # local-use NAT64
        "::/96",  # two obsolete forms of IPv4 in IPv6
        "::ffff:0:0/96",
        "::ffff:0:0:0/96",  # SIIT
        "fec0::/10",  # site-local
    )
)
"""Networks that `ipaddress` considers global but that lead into private ones."""


def is_public(ip: str) -> bool:
    """Return True if an IP address belongs to the public internet."""
    address: IPv4Address | IPv6Address = ip_address(ip.partition("%")[0])
    if address in _NAT64:  # check the embedded address, through which IPv6-only networks reach all IPv4 hosts
        address = IPv4Address(int(address) & 0xFFFFFFFF)
    inner = getattr(address, "sixtofour", None) or address
    if any(inner in network or address in network for network in _NEVER_PUBLIC):
        return False
    return inner.is_global and not inner.is_multicast and not address.is_multicast


def private_refusal(host: str, ips: Iterable[str]) -> str:
    """Explain that a host has a non-public IP address.

    Empty if all are public.
    """
    private = next((ip for ip in ips if not is_public(ip)), None)
    if private is None:
        return ""
    ip_note = "" if host == private else f" ({private})"
    return (
        f"{host}{ip_note} belongs to this machine or a private network; ask your administrator to allow it with "
        "CONFAB_PRIVATE_ADDRESSES"
    )


def _public_network() -> Any:
    """Return a network backend that connects only to public addresses."""
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
    """Explain why an address's server cannot be reached.

    Empty if it can be reached, or if connections go through a proxy.
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
    """Return a duration in seconds, minutes or hours."""
    if seconds < 2 * 60:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 2 * 3600 else f"{seconds / 3600:.0f} h"


async def wait(seconds: float, reason: str) -> None:
    """Wait for this time plus a small random delay.

    Raises:
        AddressRests: immediately, if the reply's deadline is earlier.
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
    """Return the shared address of this URL and register `customer` with it.

    The address is forgotten together with its last bot.
    """
    url = url.rstrip("/")
    with _addresses_lock:
        address = _addresses.get((url, public_only))
        if address is None:
            address = _addresses[url, public_only] = Address(url, public_only=public_only)
        address.customers.add(customer)
    return address
