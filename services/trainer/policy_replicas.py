"""All policy servers of a job, as the trainer sees them: each push reaches every replica, or comes later to it.

The replicas that had the version before are waited for. Those that lag (started just now, started again, unreachable
for a while) are given the latest weights in the background, and nobody waits for them; the orchestrator leaves them
out until then.
"""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import httpx
from pydantic import ValidationError

from shared.addresses import Address, address, host_of, look_up_blocking
from shared.schemas.policy import WeightPush, WeightState
from shared.service import Scope, authorization

log = logging.getLogger(__name__)

LEFT_BEHIND_AFTER_S = 15.0
"""A replica that could not be reached for so long is left behind, if another one has the weights."""

LOOK_EVERY_S = 2.0
"""How often lagging replicas are looked for."""

_ATTEMPTS_BEFORE_REFUSAL_COUNTS = 3
_FIRST_WAIT_S = 0.2
_LONGEST_WAIT_S = 5.0
_LOOK_TIMEOUT_S = 5.0


class WeightPushError(RuntimeError):
    """A policy server did not take the weights."""


@dataclass(frozen=True, slots=True)
class _Problem:
    """Why a push was not taken."""

    text: str
    refused: bool
    """The server said no, rather than that it could not be reached or is not ready."""


class PolicyReplicas:
    """Every replica behind some URLs, whose host names are looked up anew for each push."""

    def __init__(
        self,
        urls: Sequence[str],
        push_timeout_s: float,
        check: Callable[[], None] = lambda: None,
        lookup: Callable[[str], list[str]] = look_up_blocking,
        left_behind_after_s: float = LEFT_BEHIND_AFTER_S,
    ) -> None:
        """``push_timeout_s`` bounds one attempt; ``check`` is called between attempts and may raise."""
        self._named: dict[str, list[Address]] = {url: [] for url in urls}
        self._timeout_s = push_timeout_s
        self._check = check
        self._lookup = lookup
        self._left_behind_after_s = left_behind_after_s
        self._client = httpx.Client(
            headers=authorization(Scope.WEIGHTS), timeout=httpx.Timeout(push_timeout_s, connect=5.0), trust_env=False
        )
        self._lock = threading.Lock()
        self._latest: WeightPush | None = None
        self._current: set[Address] = set()
        self._looking: set[Address] = set()
        self._closed = threading.Event()
        self._defect: BaseException | None = None
        self._keeper = threading.Thread(target=self._keep, name="lagging policy servers", daemon=True)

    def close(self) -> None:
        """Look after nobody any more."""
        self._closed.set()
        if self._keeper.is_alive():
            self._keeper.join(timeout=_LOOK_TIMEOUT_S)
        self._client.close()

    def push(self, push: WeightPush) -> None:
        """Push to all replicas that had the version before, or to all there are where none had.

        Raises `WeightPushError` when one refuses the weights, or when none takes them within two of the timeouts.
        """
        if self._defect is not None:
            raise self._defect
        give_up = time.monotonic() + 2 * self._timeout_s
        self._latest = push
        while left := self._push_once(push, give_up):
            # Every replica that was there is gone: the name may have new addresses by now.
            if time.monotonic() > give_up:
                raise WeightPushError("; ".join(left))
            time.sleep(1.0)
        if not self._keeper.is_alive():
            self._keeper.start()

    def _push_once(self, push: WeightPush, give_up: float) -> list[str]:
        """Push to whoever is there now. Returns why nobody took it; nothing where somebody did."""
        there = self._wait_for_addresses(give_up)
        with self._lock:
            targets = [one for one in there if one in self._current] or there
            self._current.intersection_update(targets)
        taken = threading.Event()
        with ThreadPoolExecutor(max_workers=len(targets)) as pool:
            delivering = [pool.submit(self._deliver, one, push, give_up, taken) for one in targets]
            left = [problem for done in delivering if (problem := done.result()) is not None]
        return [] if taken.is_set() else left

    def _deliver(self, to: Address, push: WeightPush, give_up: float, taken: threading.Event) -> str | None:
        """Push to one replica until it has the version. Returns why it was left behind, None where it was not."""
        wait, refusals, began = _FIRST_WAIT_S, 0, time.monotonic()
        while True:
            self._check()
            problem = self._try_once(to, push)
            if problem is None:
                with self._lock:
                    self._current.add(to)
                taken.set()
                return None
            failure = f"{to.url} did not take version {push.version} of the weights: {problem.text}"
            refusals += problem.refused
            if refusals >= _ATTEMPTS_BEFORE_REFUSAL_COUNTS:
                raise WeightPushError(failure)
            if self._is_gone(to) or (taken.is_set() and time.monotonic() - began > self._left_behind_after_s):
                log.warning("left behind for now: %s", failure)
                with self._lock:
                    self._current.discard(to)
                return failure
            if time.monotonic() + wait > give_up:
                raise WeightPushError(failure)
            log.warning("weight push to %s failed, trying again in %.1f s: %s", to.url, wait, problem.text)
            time.sleep(wait)
            wait = min(2 * wait, _LONGEST_WAIT_S)

    def _try_once(self, to: Address, push: WeightPush) -> _Problem | None:
        try:
            answer = self._client.post(
                f"{to.url}/v1/weights",
                json=push.model_dump(mode="json"),
                headers={"host": to.host},
                extensions=_tls(to),
            )
        except httpx.TransportError as error:
            return _Problem(f"{type(error).__name__}: {error}", False)
        if not answer.is_success:
            return _Problem(f"status {answer.status_code}: {answer.text[:500]}", 400 <= answer.status_code < 500)
        try:
            held = WeightState.model_validate_json(answer.content)
        except ValidationError as error:
            return _Problem(f"its answer is not a weight state: {error}", True)
        if (held.version, held.digest) == (push.version, push.digest):
            return None
        return _Problem(f"it holds version {held.version} with digest {held.digest}, not {push.digest}", True)

    # Who is there.

    def _addresses(self) -> list[Address]:
        """Every replica that is named now; one whose name cannot be looked up is as it was."""
        for url in self._named:
            host = host_of(url)
            if host is None:
                self._named[url] = [address(url)]
                continue
            try:
                self._named[url] = [address(url, ip) for ip in self._lookup(host)]
            except OSError as error:
                log.warning("%s could not be looked up: %s", host, error)
        return [one for named in self._named.values() for one in named]

    def _wait_for_addresses(self, give_up: float) -> list[Address]:
        while not (there := self._addresses()):
            self._check()
            if time.monotonic() > give_up:
                raise WeightPushError(f"none of the names in {list(self._named)} has an address")
            time.sleep(1.0)
        return there

    def _is_gone(self, one: Address) -> bool:
        return one not in self._addresses()

    # Who lags.

    def _keep(self) -> None:
        """Give whoever lags the latest weights, for as long as this is open."""
        try:
            while not self._closed.wait(LOOK_EVERY_S):
                for one in self._addresses():
                    if one not in self._looking:
                        self._looking.add(one)
                        # One each, so that a replica that hangs keeps nobody else waiting.
                        threading.Thread(target=self._look_after, args=(one,), daemon=True).start()
        except Exception as error:
            self._defect = error
            raise

    def _look_after(self, one: Address) -> None:
        try:
            held = self._held(one)
            push = self._latest
            if held is None or push is None:
                return
            if (held.version, held.digest) != (push.version, push.digest):
                # A newer version that comes meanwhile makes the server refuse this one.
                problem = self._try_once(one, push.model_copy(update={"expected_version": held.version}))
                if problem is not None:
                    log.warning("%s still has version %d: %s", one.url, held.version, problem.text)
                    return
                log.info("%s had version %d, and was given %d", one.url, held.version, push.version)
            with self._lock:
                self._current.add(one)
        finally:
            self._looking.discard(one)

    def _held(self, one: Address) -> WeightState | None:
        """What a replica holds; None where it does not say."""
        try:
            answer = self._client.get(
                f"{one.url}/v1/weights", timeout=_LOOK_TIMEOUT_S, headers={"host": one.host}, extensions=_tls(one)
            )
            return WeightState.model_validate_json(answer.content) if answer.is_success else None
        except (httpx.TransportError, ValidationError, RuntimeError):
            return None  # RuntimeError: the client was closed meanwhile


def _tls(to: Address) -> dict[str, str]:
    return {} if to.tls_name is None else {"sni_hostname": to.tls_name}
