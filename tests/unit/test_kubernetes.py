"""The Kubernetes manifests: valid, rendered as kustomize does, closed where they should be, like the compose file."""

import re
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic_settings import BaseSettings

from services.env_server.metrics import EnvServerMetrics
from services.env_server.settings import EnvServerSettings
from services.policy_server.settings import PolicySettings
from services.trainer.server.settings import TrainerSettings
from shared.recipe import parse_recipe
from tests.kubernetes_render import Manifest, render

kubernetes_validate = pytest.importorskip("kubernetes_validate", reason="the schemas come with the extra `dev`")

REPOSITORY = Path(__file__).parents[2]
KUBERNETES = REPOSITORY / "deploy" / "kubernetes"
OVERLAYS = ("cpu", "gpu")
VERSIONS = ("1.29", "1.37")
"""Of Kubernetes: the oldest that is meant to work, and the newest whose schemas are there."""

PORTS = {"redis": 6379, "env-server": 8001, "policy-server": 8002, "orchestrator": 8003, "trainer": 8000}
SERVICES = ("env-server", "policy-server", "orchestrator", "trainer")

# What only one of the two has: volumes of data that a compose user mounts.
ONLY_COMPOSE_MOUNTS = {"/given/alfworld", "/given/webshop"}
SCRATCH_MOUNTS = {"/tmp", "/dev/shm"}


@pytest.fixture(scope="module")
def rendered() -> dict[str, list[Manifest]]:
    return {overlay: render(KUBERNETES / "overlays" / overlay) for overlay in OVERLAYS}


@pytest.fixture(scope="module")
def compose() -> Manifest:
    return yaml.safe_load((REPOSITORY / "docker-compose.yml").read_text())["services"]


def workloads(manifests: list[Manifest]) -> dict[str, Manifest]:
    """Name of each workload → its pod template's spec."""
    return {
        one["metadata"]["name"]: one["spec"]["template"]["spec"]
        for one in manifests
        if one["kind"] in ("Deployment", "StatefulSet")
    }


def container(manifests: list[Manifest], name: str) -> Manifest:
    """The one container of a workload."""
    (only,) = workloads(manifests)[name]["containers"]
    return only


def all_containers(manifests: list[Manifest]) -> Iterator[Manifest]:
    for pod in workloads(manifests).values():
        yield from pod.get("initContainers", [])
        yield from pod["containers"]


def of_kind(manifests: list[Manifest], kind: str) -> dict[str, Manifest]:
    return {one["metadata"]["name"]: one for one in manifests if one["kind"] == kind}


def compose_value(text: Any) -> str:
    """A compose value with the defaults of its variables."""
    return re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", str(text))


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("overlay", OVERLAYS)
def test_every_manifest_fits_the_schema(rendered: dict[str, list[Manifest]], overlay: str, version: str) -> None:
    loader = yaml.safe_load_all((KUBERNETES / "model-loader.yaml").read_text())
    for manifest in [*rendered[overlay], *loader]:
        kubernetes_validate.validate(manifest, version, strict=True)


def test_a_manifest_with_an_unknown_key_does_not_fit(rendered: dict[str, list[Manifest]]) -> None:
    service = {**of_kind(rendered["cpu"], "Service")["redis"], "spce": {}}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(service, VERSIONS[-1], strict=True)


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
@pytest.mark.parametrize("overlay", OVERLAYS)
def test_kustomize_renders_the_same(rendered: dict[str, list[Manifest]], overlay: str) -> None:
    folder = KUBERNETES / "overlays" / overlay
    printed = subprocess.run(["kubectl", "kustomize", str(folder)], capture_output=True, text=True, check=True).stdout

    def by_name(manifests: list[Manifest]) -> dict[tuple[str, str], Manifest]:
        return {(one["kind"], one["metadata"]["name"]): _sorted_lists(one) for one in manifests}

    assert by_name(list(yaml.safe_load_all(printed))) == by_name(rendered[overlay])


def _sorted_lists(value: Any) -> Any:
    """Lists of named things in one order: kustomize puts what a patch adds first."""
    if isinstance(value, dict):
        return {key: _sorted_lists(one) for key, one in value.items()}
    if isinstance(value, list):
        ordered = [_sorted_lists(one) for one in value]
        return sorted(ordered, key=lambda one: one["name"]) if all(_named(one) for one in ordered) else ordered
    return value


def _named(value: Any) -> bool:
    return isinstance(value, dict) and "name" in value


@pytest.mark.parametrize("service", SERVICES)
def test_variables_are_those_of_the_compose_file(
    rendered: dict[str, list[Manifest]], compose: Manifest, service: str
) -> None:
    there = {name: compose_value(value) for name, value in compose[service]["environment"].items()}
    here = {one["name"]: one for one in container(rendered["cpu"], service)["env"]}
    assert set(here) == set(there)
    for name, variable in here.items():
        if name.startswith("GAGPO_TOKEN"):
            assert variable["valueFrom"]["secretKeyRef"] == {"name": "gagpo-tokens", "key": name}
        else:
            assert variable["value"] == there[name], name


@pytest.mark.parametrize("service", SERVICES)
def test_images_mounts_memory_and_commands_are_those_of_the_compose_file(
    rendered: dict[str, list[Manifest]], compose: Manifest, service: str
) -> None:
    there, here = compose[service], container(rendered["cpu"], service)
    assert here["image"] == there["image"]
    mounts = {_mount_path(one) for one in there["volumes"]} - ONLY_COMPOSE_MOUNTS
    assert {one["mountPath"] for one in here["volumeMounts"]} - SCRATCH_MOUNTS == mounts
    assert here["resources"]["limits"]["memory"].lower() == compose_value(there["mem_limit"]) + "i"
    assert here.get("args") == there.get("command")


def _mount_path(volume: str) -> str:
    return compose_value(volume).removesuffix(":ro").rsplit(":", 1)[-1]


def test_redis_runs_as_in_the_compose_file(rendered: dict[str, list[Manifest]], compose: Manifest) -> None:
    here = container(rendered["cpu"], "redis")
    said = compose_value(compose["redis"]["command"]).replace('""', "").split()
    args = [one for one in here["args"] if one]
    assert here["image"] == compose_value(compose["redis"]["image"])
    assert [*here["command"], *args] == [*said, "--dir", "/data"]


@pytest.mark.parametrize("service", SERVICES)
def test_ports_and_user_are_those_of_the_image(rendered: dict[str, list[Manifest]], service: str) -> None:
    dockerfile = (REPOSITORY / "services" / service.replace("-", "_") / "Dockerfile").read_text()
    assert re.findall(r"^EXPOSE (\d+)$", dockerfile, re.MULTILINE) == [str(PORTS[service])]
    assert f"--uid {workloads(rendered['cpu'])[service]['securityContext']['runAsUser']} " in dockerfile
    assert [one["containerPort"] for one in container(rendered["cpu"], service)["ports"]] == [PORTS[service]]


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_every_variable_is_one_that_the_service_reads(rendered: dict[str, list[Manifest]], overlay: str) -> None:
    settings: dict[str, type[BaseSettings]] = {
        "GAGPO_ENV_": EnvServerSettings,
        "GAGPO_POLICY_": PolicySettings,
        "GAGPO_TRAINER_": TrainerSettings,
    }
    for one in all_containers(rendered[overlay]):
        for variable in one.get("env", []):
            for prefix, known in settings.items():
                if variable["name"].startswith(prefix):
                    assert variable["name"].removeprefix(prefix).lower() in known.model_fields


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_urls_lead_to_headless_services_at_their_ports(rendered: dict[str, list[Manifest]], overlay: str) -> None:
    services = of_kind(rendered[overlay], "Service")
    text = yaml.safe_dump(rendered[overlay])
    found = set(re.findall(r"(?:http|redis)://([a-z-]+):(\d+)", text))
    assert found == {(name, str(PORTS[name])) for name in ("redis", "env-server", "policy-server", "orchestrator")}
    for name, port in PORTS.items():
        assert services[name]["spec"]["clusterIP"] == "None", "a name must resolve to every replica"
        assert [one["port"] for one in services[name]["spec"]["ports"]] == [port]


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_containers_may_do_nothing_that_they_need_not(rendered: dict[str, list[Manifest]], overlay: str) -> None:
    for pod in workloads(rendered[overlay]).values():
        assert pod["automountServiceAccountToken"] is False
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for one in all_containers(rendered[overlay]):
        assert one["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert set(one["resources"]) == {"requests", "limits"}


@pytest.mark.parametrize("service", SERVICES)
def test_services_are_probed_where_it_means_something(rendered: dict[str, list[Manifest]], service: str) -> None:
    probed = container(rendered["cpu"], service)
    paths = {kind: probed[f"{kind}Probe"]["httpGet"]["path"] for kind in ("startup", "readiness", "liveness")}
    assert paths == {"startup": "/readyz", "readiness": "/readyz", "liveness": "/healthz"}


def test_selectors_select_pods_that_are_there(rendered: dict[str, list[Manifest]]) -> None:
    pods = [
        one["spec"]["template"]["metadata"]["labels"]
        for one in rendered["cpu"]
        if one["kind"] in ("Deployment", "StatefulSet")
    ]

    def selected(labels: dict[str, str]) -> bool:
        return any(labels.items() <= pod.items() for pod in pods)

    for one in rendered["cpu"]:
        spec = one.get("spec", {})
        if one["kind"] == "Service":
            assert selected(spec["selector"])
        elif one["kind"] == "PodDisruptionBudget":
            assert selected(spec["selector"]["matchLabels"])
        elif one["kind"] == "NetworkPolicy":
            peers = [peer for rule in spec.get("ingress", []) for peer in rule.get("from", [])]
            peers += [peer for rule in spec.get("egress", []) for peer in rule.get("to", [])]
            assert selected(spec["podSelector"]["matchLabels"])
            assert all(selected(peer["podSelector"]["matchLabels"]) for peer in peers if "podSelector" in peer)


def test_redis_is_reached_by_those_alone_that_use_it(rendered: dict[str, list[Manifest]]) -> None:
    policy = of_kind(rendered["cpu"], "NetworkPolicy")["redis"]["spec"]
    (rule,) = policy["ingress"]
    names = {peer["podSelector"]["matchLabels"]["app.kubernetes.io/name"] for peer in rule["from"]}
    using = {
        name for name in SERVICES if any(one["name"] == "REDIS_URL" for one in container(rendered["cpu"], name)["env"])
    }
    assert names == using
    assert policy["egress"] == []


def test_the_autoscaler_counts_a_metric_that_the_env_server_has(rendered: dict[str, list[Manifest]]) -> None:
    scaler = of_kind(rendered["cpu"], "HorizontalPodAutoscaler")["env-server"]["spec"]
    pods = [metric["pods"]["metric"]["name"] for metric in scaler["metrics"] if metric["type"] == "Pods"]
    assert set(pods) <= {family.name for family in EnvServerMetrics().registry.collect()}
    assert any(metric["type"] == "Resource" for metric in scaler["metrics"]), "without an adapter there is still this"
    assert "replicas" not in of_kind(rendered["cpu"], "Deployment")["env-server"]["spec"], "the autoscaler decides"


def test_tasks_are_generated_as_the_recipes_say(rendered: dict[str, list[Manifest]]) -> None:
    text = of_kind(rendered["cpu"], "ConfigMap")["tasks"]["data"]["tasks.toml"]
    made = {one.name: one.generate for one in parse_recipe(text, "tasks.toml", KUBERNETES).environments}
    for name in made:
        recipe = tomllib.loads((REPOSITORY / "configs" / f"{name}-cpu.toml").read_text())
        assert made[name] == recipe["environments"][0]["generate"]


@pytest.mark.parametrize("service", ["policy-server", "trainer"])
def test_the_gpu_overlay_changes_what_the_gpu_compose_file_does(
    rendered: dict[str, list[Manifest]], service: str
) -> None:
    override = yaml.safe_load((REPOSITORY / "docker-compose.gpu.yml").read_text())["services"][service]
    here = container(rendered["gpu"], service)
    assert here["image"] == override["image"]
    assert set(override["environment"]) <= {one["name"] for one in here["env"]}
    assert here["resources"]["limits"]["memory"].lower() == compose_value(override["mem_limit"]) + "i"


def test_gpus_are_asked_for_where_they_are_used(rendered: dict[str, list[Manifest]]) -> None:
    def gpus(name: str) -> Any:
        return container(rendered["gpu"], name)["resources"]["limits"].get("nvidia.com/gpu")

    def value(name: str, variable: str) -> str:
        return next(one["value"] for one in container(rendered["gpu"], name)["env"] if one["name"] == variable)

    assert gpus("policy-server") == int(value("policy-server", "GAGPO_POLICY_TENSOR_PARALLEL_SIZE"))
    assert gpus("trainer") == int(value("trainer", "GAGPO_TRAINER_NPROC"))
    assert gpus("env-server") is None
