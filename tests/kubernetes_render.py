"""Renders the kustomizations of ``deploy/kubernetes`` as `kustomize build` does, with the few features that they use.

No registry of packages has kustomize itself. Where `kubectl` is at hand, a test compares its answer with this one.
"""

import copy
from pathlib import Path
from typing import Any

import yaml

Manifest = dict[str, Any]

USED = {"apiVersion", "kind", "namespace", "resources", "labels", "patches"}
"""What a kustomization may say here; anything else is refused rather than ignored."""

MERGE_KEYS = {
    "containers": "name",
    "env": "name",
    "initContainers": "name",
    "ports": "containerPort",
    "volumeMounts": "mountPath",
    "volumes": "name",
}
"""Lists that a patch merges element by element, and what identifies one; other lists are replaced."""

CLUSTER_WIDE = {"Namespace"}


def render(folder: Path) -> list[Manifest]:
    """All manifests of a kustomization, patched. Raises ValueError for what this renderer does not know."""
    kustomization = yaml.safe_load((folder / "kustomization.yaml").read_text())
    if unknown := set(kustomization) - USED:
        raise ValueError(f"{folder}: {sorted(unknown)} are not rendered here")
    manifests = [one for name in kustomization["resources"] for one in _resource(folder / name)]
    for patch in kustomization.get("patches", []):
        manifests = _patched(manifests, yaml.safe_load((folder / patch["path"]).read_text()), patch.get("target"))
    for label in kustomization.get("labels", []):
        for manifest in manifests:
            _label(manifest, label["pairs"], templates=label["includeTemplates"])
    if namespace := kustomization.get("namespace"):
        for manifest in manifests:
            if manifest["kind"] not in CLUSTER_WIDE:
                manifest["metadata"]["namespace"] = namespace
    return manifests


def _resource(path: Path) -> list[Manifest]:
    if path.is_dir():
        return render(path)
    return [one for one in yaml.safe_load_all(path.read_text()) if one]


def _patched(manifests: list[Manifest], patch: Manifest, target: dict[str, str] | None) -> list[Manifest]:
    wanted = target or {"kind": patch["kind"], "name": patch["metadata"]["name"]}
    body = {key: value for key, value in patch.items() if key not in ("apiVersion", "kind")}
    body.get("metadata", {}).pop("name", None)
    chosen = [
        one
        for one in manifests
        if one["kind"] == wanted["kind"] and one["metadata"]["name"] == wanted.get("name", one["metadata"]["name"])
    ]
    if not chosen:
        raise ValueError(f"a patch is for {wanted}, which is not there")
    return [merged(one, body) if one in chosen else one for one in manifests]


def merged(base: Manifest, patch: Manifest) -> Manifest:
    """A strategic merge: tables key by key, lists of `MERGE_KEYS` element by element, null removes."""
    result = copy.deepcopy(base)
    for key, value in patch.items():
        present = result.get(key)
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict) and isinstance(present, dict):
            result[key] = merged(present, value)
        elif isinstance(value, list) and isinstance(present, list) and key in MERGE_KEYS:
            result[key] = _merged_list(present, value, MERGE_KEYS[key])
        else:
            result[key] = copy.deepcopy(value)
    return result


def _merged_list(present: list[Manifest], changes: list[Manifest], key: str) -> list[Manifest]:
    found = {one[key]: one for one in present}
    for change in changes:
        known = found.get(change[key])
        found[change[key]] = copy.deepcopy(change) if known is None else merged(known, change)
    return list(found.values())


def _label(manifest: Manifest, pairs: dict[str, str], *, templates: bool) -> None:
    spec = manifest.get("spec", {})
    labelled = [manifest]
    if templates:
        labelled += [spec["template"]] if "template" in spec else []
        labelled += spec.get("volumeClaimTemplates", [])
    for one in labelled:
        one["metadata"].setdefault("labels", {}).update(pairs)
