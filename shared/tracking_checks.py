"""What is wrong with a recipe's trackers here, found before anything is trained."""

import importlib.util
import os
from collections.abc import Iterator
from urllib.parse import urlsplit

import httpx

from shared.recipe import RecipeFault, TrackingSettings

URI_VARIABLE = "MLFLOW_TRACKING_URI"

_SCHEMES = ("file", "http", "https")
_HEALTH_DEADLINE_S = 10.0


def mlflow_uri(tracking: TrackingSettings) -> str:
    """The recipe's, else the variable's; empty where neither says."""
    return tracking.mlflow_uri or os.environ.get(URI_VARIABLE, "")


def tracking_faults(tracking: TrackingSettings) -> Iterator[RecipeFault]:
    """What will not do on this machine, as far as can be told without the network."""
    for extra, asked in (("wandb", tracking.wandb), ("mlflow", tracking.mlflow)):
        if asked and not _installed(extra):
            remedy = f"pip install 'gagpo[{extra}]', or set it to false"
            yield RecipeFault(f"tracking.{extra}", "True", f"the package {extra} is not installed here: {remedy}")
    if not tracking.mlflow:
        return
    uri = mlflow_uri(tracking)
    if not uri:
        remedy = f"give the server's address, as in mlflow_uri = 'http://127.0.0.1:5000', or set {URI_VARIABLE}"
        yield RecipeFault("tracking.mlflow_uri", None, f"needed with mlflow = true: {remedy}")
    elif urlsplit(uri).scheme not in _SCHEMES:
        message = "takes http://…, https://… or a folder (file:///…); a database is for `mlflow server` to open"
        yield RecipeFault("tracking.mlflow_uri", repr(uri), message)


def unreachable_trackers(tracking: TrackingSettings) -> Iterator[RecipeFault]:
    """Servers that do not answer at the moment. Blocks for some seconds at most."""
    uri = mlflow_uri(tracking)
    if not tracking.mlflow or urlsplit(uri).scheme not in ("http", "https"):
        return
    try:
        httpx.get(f"{uri.rstrip('/')}/health", timeout=_HEALTH_DEADLINE_S)  # any answer will do, of a proxy too
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        remedy = "start it (mlflow server), correct the address, or set tracking.mlflow = false"
        yield RecipeFault("tracking.mlflow_uri", repr(uri), f"no MLflow server answers there ({error}): {remedy}")


def _installed(package: str) -> bool:
    """A folder of that name, such as the one in which W&B keeps its files, is no package."""
    found = importlib.util.find_spec(package)
    return found is not None and found.origin is not None
