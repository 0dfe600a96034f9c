"""Files that are not what they seem: links out of a downloaded folder, named pipes in the cache, devices as outputs,
and ids beyond all ranges."""
import json
import os
import shutil
import stat

import pytest
from experiment import ONE_RANK
from places import assert_nothing_half_written
from safetensors.numpy import load_file


@pytest.fixture(scope="module")
def model(program, tmp_path_factory):
    """A model in the format of Hugging Face."""
    from places import Place
    made = Place(tmp_path_factory.mktemp("model"))
    made.tokens()
    made.run(train__steps=1, **ONE_RANK)
    made.host("checkpoint", "export", "trial", "-o", "hf")
    return made.folder / "hf"


@pytest.fixture
def secret(tmp_path_factory):
    file = tmp_path_factory.mktemp("elsewhere") / "secret"
    file.write_text("SECRET")
    return file


@pytest.mark.parametrize("name", ["chat_template.jinja", "generation_config.json", "tokenizer.json", "tokenizer.model",
                                  "tokenizer_config.json", "config.json"])
def test_links_out_of_a_folder_are_not_followed_by_an_import(place, model, secret, name):
    theirs = place.folder / "theirs"
    shutil.copytree(model, theirs)
    (theirs / name).unlink(missing_ok=True)
    (theirs / name).symlink_to(secret)
    ended = place.refuse_command(4, f"{name} is a link to .*secret, outside of its folder",
                                 command=["checkpoint", "import", "theirs", "-o", "ours"])
    assert "SECRET" not in ended.err + ended.out
    assert not (place.folder / "ours").exists()


@pytest.mark.parametrize("name", ["chat_template.jinja", "tokenizer_config.json"])
def test_links_out_of_a_folder_are_not_published_by_a_run_or_an_export(place, secret, name):
    (place.folder / "a.txt").write_text("A line of text.\n" * 400)
    text = dict(data={"kind": "text", "files": ["a.txt"], "tokenizer": {"kind": "byte"}}, model__vocab_size=None,
                train__steps=1, **ONE_RANK)
    place.run(**text)
    place.host("checkpoint", "export", "trial", "-o", "theirs")
    theirs, of_run = place.folder / "theirs", place.log.folder() / "model"
    for folder in (theirs, of_run):
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(secret)
    link = f"{name} is a link to .*secret, outside of its folder"
    tokenizer = {"kind": "file", "file": "theirs/tokenizer.json"}
    reads_it = text | {"data": text["data"] | {"tokenizer": tokenizer}, "model__vocab_size": 512}
    refusals = [place.refuse(4, link, **reads_it)]
    refusals.append(place.refuse_command(4, link, command=["checkpoint", "export", of_run, "-o", "ours"]))
    assert not any("SECRET" in ended.err + ended.out for ended in refusals)
    assert not (place.folder / "ours").exists()
    assert not [file for file in place.folder.glob("runs/**/*") if not file.is_symlink() and file.is_file()
                and b"SECRET" in file.read_bytes()]


def test_the_cache_of_hugging_face_is_imported(place, model):
    """snapshots/REVISION has links to ../../blobs/HASH."""
    cache = place.folder / "models--org--name"
    for snapshot, up in (("snapshots/abc", "../../blobs"), ("snapshots/abd/original", "../../../blobs")):
        (cache / snapshot).mkdir(parents=True)
        (cache / "blobs").mkdir(exist_ok=True)
        for file in model.iterdir():
            shutil.copy(file, cache / "blobs" / f"hash-of-{file.name}")
            (cache / snapshot / file.name).symlink_to(f"{up}/hash-of-{file.name}")
    place.host("checkpoint", "import", cache / "snapshots/abc", "-o", "ours")
    place.host("checkpoint", "import", cache / "snapshots/abd/original", "-o", "original")
    (place.folder / "latest").symlink_to(cache / "snapshots/abc")
    place.host("checkpoint", "import", "latest", "-o", "again")
    (place.folder / "inside").mkdir()
    for file in model.iterdir():
        shutil.copy(file, place.folder / "inside" / f"own-{file.name}")
        (place.folder / "inside" / file.name).symlink_to(f"own-{file.name}")
    place.host("checkpoint", "import", "inside", "-o", "fourth")
    wanted = load_file(model.parent / "runs/1-trial/model/model.safetensors")
    for name in ("ours", "original", "again", "fourth"):
        found = load_file(place.folder / name / "model.safetensors")
        assert found.keys() == wanted.keys() and all((found[key] == wanted[key]).all() for key in wanted), name


def test_a_token_id_beyond_64_bits_is_refused(place, model):
    shutil.copytree(model, place.folder / "theirs")
    file = place.folder / "theirs/config.json"
    config = json.loads(file.read_text())
    for id in (2**63, 2**64 - 1, 1 << 24):
        for ids in (id, [1, id]):
            file.write_text(json.dumps({**config, "eos_token_id": ids}))
            place.refuse_command(4, "eos_token_id is .*wanted an id",
                                 command=["checkpoint", "import", "theirs", "-o", "ours"])


def test_named_pipes_in_the_cache_are_replaced(place):
    (place.folder / "a.txt").write_text("A line.\n" * 400)
    changes = dict(data={"kind": "text", "files": ["a.txt"], "tokenizer": {"kind": "byte"}}, model__vocab_size=None,
                   train__steps=1, **ONE_RANK)
    place.run(**changes)
    cache = place.folder / "runs/cache"
    prepared, = cache.rglob("prepared.json")
    for file in (prepared, cache / "hashes.txt", cache / "texts.txt"):
        file.unlink(missing_ok=True)
        os.mkfifo(file)
    place.run(**changes)
    assert prepared.is_file()
    assert_nothing_half_written(place.folder)


OUTPUTS = {"records": ["data", "prepare", "--from", "arithmetic", "--problems", "2", "--force", "-o"],
           "table": ["data", "convert", "list.json", "--force", "--to"], "report": ["report", "trial", "--force", "-o"],
           "evaluation": ["eval", "--suite", "suite.jsonl", "--samples", "samples.jsonl", "-o"]}


@pytest.fixture(scope="module")
def outputs(program, tmp_path_factory):
    """With what the commands of OUTPUTS read."""
    from places import Place
    made = Place(tmp_path_factory.mktemp("outputs"))
    made.tokens()
    made.run(train__steps=1, **ONE_RANK)
    (made.folder / "list.json").write_text('[{"a": 1}]')
    (made.folder / "suite.jsonl").write_text('{"task_id": "t/0", "instruction": "1 + 1?", "output": "2"}\n')
    (made.folder / "samples.jsonl").write_text('{"task_id": "t/0", "completion": "2"}\n')
    return made


@pytest.mark.parametrize("kind", OUTPUTS)
def test_only_files_are_replaced(outputs, kind, tmp_path):
    pipe, device, linked, broken, file = (tmp_path / name for name in ("pipe", "null", "linked", "broken", "file"))
    os.mkfifo(pipe)
    linked.symlink_to("pipe")
    broken.symlink_to("none")
    refused = {pipe: "is a named pipe, not a regular file", linked: "is a named pipe",
               broken: "link to a file that does not exist", tmp_path: "is a folder"}
    if os.getuid() == 0:
        os.mknod(device, 0o600 | stat.S_IFCHR, os.makedev(1, 3))
        refused[device] = "is a device, not a regular file"
    before = {path: os.lstat(path).st_mode for path in refused}
    for path, message in refused.items():
        outputs.refuse_command(2, message, command=[*OUTPUTS[kind], path])
    assert before == {path: os.lstat(path).st_mode for path in refused} and not (tmp_path / "none").exists()
    outputs.host(*OUTPUTS[kind], file)
    assert file.read_text()


def test_a_file_is_replaced_through_a_link(outputs, tmp_path):
    (tmp_path / "file").write_text("old")
    (tmp_path / "link").symlink_to("file")
    outputs.host(*OUTPUTS["table"], tmp_path / "link")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "file").read_text() == '{"a": 1}\n'
