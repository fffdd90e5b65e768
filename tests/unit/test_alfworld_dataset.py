"""Opening ALFWorld's games in every layout, and downloading them from a server that misbehaves."""

import json
import lzma
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from services.env_server.environments.alfworld import dataset as dataset_module
from services.env_server.environments.alfworld.dataset import (
    AlfworldDataset,
    open_configured,
    open_dataset,
    open_default,
)
from services.env_server.environments.alfworld.dataset_index import goal_in_grammar
from services.env_server.environments.alfworld.download import archives_at, download_dataset
from services.env_server.environments.alfworld.generator.spec import TASK_TYPES, make_spec
from services.env_server.environments.alfworld.generator.write import generate_dataset
from services.env_server.environments.base import EnvironmentDataError, UnknownSplitError, UnknownTaskError
from services.env_server.environments.download import LOCK_FILE, RemoteFile
from tests.data_paths import real_data
from tests.file_server import Server, serving

SPEC = make_spec(18, seed=11, difficulty="easy", valid_seen=6, valid_unseen=6)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    cache = tmp_path / "cache"
    monkeypatch.setenv("GAGPO_CACHE", str(cache))
    return cache


@pytest.fixture
def games(tmp_path: Path) -> Path:
    generate_dataset(SPEC, tmp_path / "games")
    return tmp_path / "games"


def pack(dataset: AlfworldDataset, folder: Path) -> None:
    """The games of a dataset as packed files."""
    folder.mkdir()
    for split, task_ids in dataset.splits.items():
        with lzma.open(folder / f"{split}.jsonl.xz", "wt") as file:
            for source in map(dataset.load, task_ids):
                line = {"id": source.task_id, "task_type": source.task_type, "goal": source.goal, "split": split}
                line |= {"human_goals": source.human_goals, "problem": source.problem}
                file.write(json.dumps(line | {"walkthrough": source.walkthrough}) + "\n")


def test_the_official_layout_is_found_from_its_folder_its_parent_and_each_split(games: Path) -> None:
    root = open_dataset(games / "json_2.1.1")
    assert {split: len(ids) for split, ids in root.splits.items()} == {"train": 18, "valid_seen": 6, "valid_unseen": 6}
    for path in (games, games / "json_2.1.1" / "valid_seen", str(games)):
        other = open_dataset(path)
        assert (other.splits, other.digest, other.kind) == (root.splits, root.digest, "generated")


def test_a_game_is_loaded_whole(games: Path) -> None:
    dataset = open_dataset(games)
    task_id = dataset.tasks("train")[0]
    source = dataset.load(task_id)
    folder = games / "json_2.1.1" / "train" / task_id
    game = json.loads((folder / "game.tw-pddl").read_text("utf-8"))
    assert source.task_id == task_id
    assert source.task_type in TASK_TYPES
    assert (source.domain, source.grammar, source.problem) == (
        game["pddl_domain"],
        game["grammar"],
        game["pddl_problem"],
    )
    assert list(source.walkthrough) == game["walkthrough"]
    assert f"Your task is to: {source.goal}." in source.grammar
    assert len(source.human_goals) == 3


def test_packed_files_give_the_same_games_in_the_same_order(games: Path, tmp_path: Path) -> None:
    folders = open_dataset(games)
    pack(folders, tmp_path / "packed")
    packed = open_dataset(tmp_path / "packed")
    assert packed.kind == "packed"
    assert packed.splits == folders.splits
    for task_id in (*packed.tasks("train"), *packed.tasks("valid_unseen")):
        assert packed.load(task_id) == folders.load(task_id)


def test_packed_files_are_unpacked_once_and_then_only_read(games: Path, tmp_path: Path, own_cache: Path) -> None:
    pack(open_dataset(games), tmp_path / "packed")
    first = open_dataset(tmp_path / "packed")
    before = {path: path.stat().st_mtime_ns for path in own_cache.rglob("lines.bin")}
    assert len(before) == 3
    code = "from services.env_server.environments.alfworld.dataset import open_dataset; import sys;"
    code += "d = open_dataset(sys.argv[1]); d.load(d.tasks('train')[3]); print(d.digest)"
    command = [sys.executable, "-c", code, str(tmp_path / "packed")]
    digests = {subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip() for _ in range(2)}
    assert digests == {first.digest}
    assert {path: path.stat().st_mtime_ns for path in own_cache.rglob("lines.bin")} == before


def test_the_digest_depends_on_the_data_and_not_on_where_or_when_it_was_written(games: Path, tmp_path: Path) -> None:
    digest = open_dataset(games).digest
    shutil.copytree(games, tmp_path / "copy", copy_function=shutil.copyfile)
    copy = open_dataset(tmp_path / "copy")
    assert copy.digest == digest
    changed = tmp_path / "copy" / "json_2.1.1" / "train" / copy.tasks("train")[0] / "game.tw-pddl"
    changed.write_text(changed.read_text("utf-8").replace("holds", "helds", 1), "utf-8")
    assert open_dataset(tmp_path / "copy").digest != digest


def test_the_first_tasks_of_a_split_are_a_mixture_of_task_types(games: Path, tmp_path: Path) -> None:
    generate_dataset(make_spec(120, seed=1, difficulty="easy"), tmp_path / "many")
    first = open_dataset(tmp_path / "many").tasks("train")[:40]
    assert len({task_id.split("-")[0] for task_id in first}) == len(TASK_TYPES)


def test_games_that_stock_alfworld_leaves_out_are_left_out(games: Path) -> None:
    split = games / "json_2.1.1" / "train"
    task_id = open_dataset(games).tasks("train")[0]
    for name, solvable in (
        ("pick_and_place_with_movable_recep-A-B-C-1", True),
        ("x-AppleSliced-None-C-1", True),
        ("y", None),
    ):
        shutil.copytree(split / task_id, split / name / "trial_1")
        game = json.loads((split / task_id / "game.tw-pddl").read_text("utf-8")) | {"solvable": solvable}
        (split / name / "trial_1" / "game.tw-pddl").write_text(json.dumps(game), "utf-8")
    assert len(open_dataset(games).tasks("train")) == 18


def test_games_of_the_older_release_open_with_their_own_wording() -> None:
    dataset = open_dataset(real_data("alfworld/old_release_games.jsonl.xz"))
    sources = [dataset.load(task_id) for task_id in dataset.tasks("old_release_games")]
    assert len(sources) == 6
    for source in sources:
        assert source.walkthrough == ()
        assert "put {o} in/on {r}" in source.grammar
        assert f"Your task is to: {source.goal}." in source.grammar


def test_the_real_packed_release_opens_with_all_its_games() -> None:
    dataset = open_dataset(real_data("alfworld"))
    sizes = {split: len(ids) for split, ids in dataset.splits.items()}
    assert sizes == {"train": 3553, "valid_seen": 140, "valid_unseen": 134}
    source = dataset.load(dataset.tasks("train")[1234])
    assert source.walkthrough and source.human_goals and source.goal in source.grammar


def test_the_default_dataset_is_generated_once_and_shared(monkeypatch: pytest.MonkeyPatch, own_cache: Path) -> None:
    monkeypatch.setattr(dataset_module, "DEFAULT_TASKS", 12)
    first = open_default()
    assert set(first.splits) == {"train", "valid_seen", "valid_unseen"}
    before = {path: path.stat().st_mtime_ns for path in own_cache.rglob("game.tw-pddl")}
    assert open_default().digest == first.digest
    assert {path: path.stat().st_mtime_ns for path in own_cache.rglob("game.tw-pddl")} == before


def test_without_a_configured_folder_the_default_is_played(
    games: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dataset_module, "DEFAULT_TASKS", 12)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("ALFWORLD_DATA", raising=False)
    default = open_configured().digest
    # The alfworld package sets this when it is imported, whether or not anything was downloaded there.
    monkeypatch.setenv("ALFWORLD_DATA", str(tmp_path / ".cache" / "alfworld"))
    assert open_configured().digest == default
    monkeypatch.setenv("ALFWORLD_DATA", str(games))
    assert open_configured().digest == open_dataset(games).digest != default


def test_unknown_splits_and_tasks_are_named(games: Path) -> None:
    dataset = open_dataset(games)
    with pytest.raises(UnknownSplitError, match="'test'; there are train, valid_seen, valid_unseen"):
        dataset.tasks("test")
    with pytest.raises(UnknownTaskError, match="no task 'a/b'"):
        dataset.load("a/b")
    with pytest.raises(UnknownTaskError):
        dataset.load("../../../etc/passwd")


def test_a_folder_without_games_is_an_error_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentDataError, match=r"nowhere does not exist.*gagpo data generate alfworld"):
        open_dataset(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(EnvironmentDataError, match=r"holds neither split folders.*gagpo data alfworld"):
        open_dataset(tmp_path / "empty")
    (tmp_path / "empty" / "train").mkdir()
    with pytest.raises(EnvironmentDataError, match="holds no playable game"):
        open_dataset(tmp_path / "empty")


def test_damaged_files_are_named(games: Path, tmp_path: Path) -> None:
    dataset = open_dataset(games)
    path = games / "json_2.1.1" / "train" / dataset.tasks("train")[0] / "game.tw-pddl"
    path.write_text(path.read_text("utf-8")[:1000], "utf-8")
    with pytest.raises(EnvironmentDataError, match=re.escape(str(path))):
        dataset.load(dataset.tasks("train")[0])
    pack(open_dataset(games), tmp_path / "packed")
    file = tmp_path / "packed" / "train.jsonl.xz"
    file.write_bytes(file.read_bytes()[:-500])
    with pytest.raises(EnvironmentDataError, match=f"{re.escape(str(file))} is damaged"):
        open_dataset(tmp_path / "packed")


def test_opening_data_and_generating_import_no_textworld() -> None:
    code = "import sys, services.env_server.environments.alfworld.dataset as d;"
    code += "import services.env_server.environments.alfworld.generator.write;"
    code += "bad = {'textworld', 'alfworld', 'torch', 'numpy'} & set(sys.modules); assert not bad, bad"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_goal_sentence_is_read_from_a_grammar() -> None:
    assert goal_in_grammar('"rhs": "Your task is to: put a mug in desk."') == "put a mug in desk"
    assert goal_in_grammar("no task here") == ""


# --- downloads ---


@pytest.fixture
def release(games: Path, tmp_path: Path) -> Server:
    """The two archives of a release made of generated games, each with one top folder as the publisher has them."""
    contents = {}
    for name, top, kept in (
        ("json_2.1.1_json.zip", "json_2.1.1", "traj_data.json"),
        ("json_2.1.2_tw-pddl.zip", "json_2.1.2", "game.tw-pddl"),
    ):
        with zipfile.ZipFile(tmp_path / name, "w", zipfile.ZIP_DEFLATED) as archive:
            for path in sorted((games / "json_2.1.1").rglob(kept)):
                archive.write(path, f"{top}/{path.relative_to(games / 'json_2.1.1')}")
        contents[name] = (tmp_path / name).read_bytes()
    return Server(contents)


def test_a_download_that_breaks_off_is_continued_where_it_stopped(release: Server, games: Path, tmp_path: Path) -> None:
    out = tmp_path / "official"
    with serving(release):
        release.cuts = 2
        report = download_dataset(out, archives_at(release.address), backoff_s=0.01)
    assert release.ranges == ["bytes=1000-", "bytes=2000-"]
    assert all("recorded in downloads.lock.json (the publisher gives none" in line for line in report)
    dataset = open_dataset(out)
    assert dataset.kind == "official"
    assert (dataset.splits, dataset.digest) == (open_dataset(games).splits, open_dataset(games).digest)
    assert sorted(path.name for path in out.iterdir()) == [LOCK_FILE, "json_2.1.1"]
    assert "nothing to do" in download_dataset(out)[0]


def test_a_later_run_continues_what_an_earlier_one_could_not_finish(release: Server, tmp_path: Path) -> None:
    out = tmp_path / "official"
    with serving(release):
        release.cuts = 1000
        release.cut_after = 200
        with pytest.raises(EnvironmentDataError, match=r"1,000 bytes are kept and the next run continues from there"):
            download_dataset(out, archives_at(release.address), backoff_s=0.001)
        assert not (out / "json_2.1.1").exists()
        release.cuts = 0
        release.ranges.clear()
        download_dataset(out, archives_at(release.address))
    assert release.ranges == ["bytes=1000-"]
    assert open_dataset(out).tasks("train")


def test_a_file_that_changed_on_the_server_is_fetched_from_the_start(release: Server, tmp_path: Path) -> None:
    out = tmp_path / "official"
    with serving(release):
        release.cuts = 1000
        with pytest.raises(EnvironmentDataError):
            download_dataset(out, archives_at(release.address), backoff_s=0.001)
        release.cuts, release.etag = 0, '"2"'
        release.ranges.clear()
        download_dataset(out, archives_at(release.address))
    assert release.ranges == []
    assert open_dataset(out).tasks("train")


def test_a_download_that_differs_from_the_recorded_checksum_is_refused(release: Server, tmp_path: Path) -> None:
    out = tmp_path / "official"
    out.mkdir()
    (out / LOCK_FILE).write_text(json.dumps({"json_2.1.1_json.zip": "0" * 64}), "utf-8")
    with serving(release), pytest.raises(EnvironmentDataError, match=r"json_2.1.1_json.zip has sha256 .* says 0000"):
        download_dataset(out, archives_at(release.address))
    assert not (out / "json_2.1.1").exists()


def test_archives_put_there_by_hand_need_no_network(release: Server, tmp_path: Path) -> None:
    out = tmp_path / "official"
    (out / "downloads").mkdir(parents=True)
    for name, content in release.files.items():
        (out / "downloads" / name).write_bytes(content)
    download_dataset(out, archives_at("http://127.0.0.1:9"))
    assert open_dataset(out).tasks("train")


def test_without_a_network_the_error_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentDataError, match=r"cannot download .*put them into .*gagpo data generate alfworld"):
        download_dataset(tmp_path / "official", archives_at("http://127.0.0.1:9"), backoff_s=0.001)


def test_a_missing_file_on_the_server_is_not_retried(release: Server, tmp_path: Path) -> None:
    release.files.clear()
    with serving(release), pytest.raises(EnvironmentDataError, match="the server answered 404"):
        download_dataset(tmp_path / "official", archives_at(release.address), backoff_s=60)


def test_a_damaged_archive_leaves_nothing_half_unpacked(release: Server, tmp_path: Path) -> None:
    name = "json_2.1.2_tw-pddl.zip"
    release.files[name] = release.files[name][:-40]
    out = tmp_path / "official"
    with serving(release), pytest.raises(EnvironmentDataError, match=f"{name} is damaged"):
        download_dataset(out, archives_at(release.address))
    assert not (out / "json_2.1.1").exists()
    assert not list(out.glob(".*partial*"))


def test_an_archive_cannot_write_outside_of_its_folder(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "evil.zip", "w") as archive:
        archive.writestr("json_2.1.1/../../../evil/game.tw-pddl", "{}")
    out = tmp_path / "deep" / "official"
    (out / "downloads").mkdir(parents=True)
    shutil.copy(tmp_path / "evil.zip", out / "downloads" / "evil.zip")
    with pytest.raises(EnvironmentDataError, match="would land outside"):
        download_dataset(out, [RemoteFile("evil.zip", "http://127.0.0.1:9/evil.zip")])
    assert not (tmp_path / "evil").exists()
