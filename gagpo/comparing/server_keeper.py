"""Servers that stay up from run to run, as long as the next run can use them."""

from pathlib import Path
from types import TracebackType
from typing import Self

from gagpo.stack import LocalServers, ServerSettings, ServiceDiedError
from gagpo.training.tasks import data_folders
from shared.recipe import Recipe


class ServerKeeper:
    """At most one set of servers at a time. Leaving the ``with`` block stops it."""

    def __init__(self, folder: Path) -> None:
        """Starts nothing yet; the servers' logs go to ``folder/logs``."""
        self._folder = folder
        self._servers: LocalServers | None = None

    def __enter__(self) -> Self:
        """Nothing runs until `serve`."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop the servers."""
        self.stop()

    @property
    def servers(self) -> LocalServers:
        """The servers that run. Call `serve` first."""
        assert self._servers is not None, "serve() was not called"
        return self._servers

    def serve(self, recipe: Recipe) -> None:
        """Have servers for a recipe: those that run, if they fit and are well, else new ones.

        Raises `ServiceDiedError`, `RedisServerError` and `TaskDataError`.
        """
        settings = ServerSettings.of(recipe, data_folders(recipe))
        if self._servers is not None and self._servers.settings == settings and not self.broken():
            return
        self.stop()
        self._servers = LocalServers(settings, self._folder)
        self._servers.__enter__()
        self._servers.start()

    def broken(self) -> bool:
        """Whether one of the servers has ended."""
        if self._servers is None:
            return False
        try:
            self._servers.check()
        except ServiceDiedError:
            return True
        return False

    def stop(self) -> None:
        """Stop the servers, if there are any."""
        servers, self._servers = self._servers, None
        if servers is not None:
            servers.stop()
