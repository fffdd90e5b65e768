"""The dashboard shows metrics that there are, with labels that they have, of services that Prometheus finds."""

import importlib.util
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from fastapi import FastAPI

from services.env_server.metrics import EnvServerMetrics
from services.orchestrator.metrics import OrchestratorMetrics
from services.policy_server.metrics import PolicyMetrics
from services.trainer.server.metrics import TrainerMetrics
from shared.service import Tokens, install_service
from tests.processes import REPOSITORY

FOLDER = REPOSITORY / "deploy" / "observability"
DASHBOARD = json.loads((FOLDER / "grafana" / "dashboards" / "gagpo.json").read_text())
SUFFIXES = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count"), "gauge": ("",)}
FUNCTIONS = {"sum", "max", "rate", "increase", "histogram_quantile"}
FROM_PROMETHEUS = {"up": {"job", "instance"}}
ADDED = {"job", "instance", "le"}
"""Labels that Prometheus adds, and the bounds of a histogram's buckets."""


def queries() -> Iterator[str]:
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", ()):
            yield target["expr"]


def served() -> dict[str, set[str]]:
    """Every metric of our services, with its labels."""
    registries = {
        "env": EnvServerMetrics().registry,
        "orchestrator": OrchestratorMetrics(["maze"]).registry,
        "policy": PolicyMetrics().registry,
        "trainer": TrainerMetrics().registry,
    }
    found: dict[str, set[str]] = {}
    for service, registry in registries.items():
        app = FastAPI()
        install_service(app, service=service, tokens=Tokens(), access=(), registry=registry)
        app.middleware_stack = app.build_middleware_stack()  # which makes what counts the requests
        for collector in set(registry._collector_to_names):
            (family,) = collector.describe()
            for suffix in SUFFIXES[family.type]:
                found[family.name + suffix] = set(collector._labelnames)
    return found


def served_by_vllm() -> dict[str, set[str]]:
    spec = importlib.util.find_spec("vllm")
    if spec is None or spec.origin is None:
        pytest.skip("vLLM is not installed")
    source = (Path(spec.origin).parent / "v1" / "metrics" / "loggers.py").read_text()
    names = re.findall(r'name="(vllm:\w+)"', source)
    return {name + suffix: set[str]() for name in names for suffix in ("", "_total")}


def parts(query: str) -> tuple[set[str], set[str]]:
    """The metrics and the labels that a query names."""
    text = re.sub(r'"[^"]*"', '""', query)
    labels = {label for inside in re.findall(r"\{([^}]*)\}", text) for label in re.findall(r"(\w+)\s*[=!]", inside)}
    labels |= {label for inside in re.findall(r"by \(([^)]*)\)", text) for label in re.findall(r"\w+", inside)}
    bare = re.sub(r"\{[^}]*\}|by \([^)]*\)|\[[^\]]*\]", "", text)
    return set(re.findall(r"[a-z][\w:]*", bare)) - FUNCTIONS, labels


@pytest.mark.parametrize("query", sorted(set(queries())))
def test_a_query_asks_for_metrics_and_labels_that_there_are(query: str) -> None:
    assert query.count("(") == query.count(")")
    names, labels = parts(query)
    assert names
    known = served() | FROM_PROMETHEUS
    if any(name.startswith("vllm:") for name in names):
        known |= served_by_vllm()
    assert names <= known.keys()
    assert labels <= set.union(ADDED, *(known[name] for name in names))


def test_each_name_says_its_service() -> None:
    assert all(re.match(r"gagpo_(env|policy|orchestrator|trainer)_[a-z_]+$", name) for name in served())


def test_the_panels_do_not_overlap_and_each_says_what_it_shows() -> None:
    covered = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & covered, panel["title"]
        assert max(x for x, _ in cells) < 24
        covered |= cells
        assert panel["type"] == "row" or panel["description"]
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])


def test_the_dashboard_asks_the_provisioned_source() -> None:
    (source,) = yaml.safe_load((FOLDER / "grafana/provisioning/datasources/prometheus.yml").read_text())["datasources"]
    used = {panel["datasource"]["uid"] for panel in DASHBOARD["panels"] if "datasource" in panel}
    assert used == {source["uid"]}
    (provider,) = yaml.safe_load((FOLDER / "grafana/provisioning/dashboards/gagpo.yml").read_text())["providers"]
    assert provider["options"]["path"] in (REPOSITORY / "docker-compose.yml").read_text()


def test_prometheus_looks_for_the_services_where_they_are() -> None:
    scraped = yaml.safe_load((FOLDER / "prometheus.yml").read_text())["scrape_configs"]
    places = {(names["names"][0], names["port"]) for job in scraped for names in job["dns_sd_configs"]}
    assert places == {("env-server", 8001), ("policy-server", 8002), ("orchestrator", 8003), ("trainer", 8000)}
    services = yaml.safe_load((REPOSITORY / "docker-compose.yml").read_text())["services"]
    assert {name for name, _ in places} <= services.keys()
