from __future__ import annotations

import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from capsim.catalog import data
from capsim.cli import doctor, hardware, installation
from capsim.cli.installation import Package, packages
from capsim.errors import InvariantBroken
from capsim.plan import self_test
from capsim.plan.self_test import SelfTest
from tests.cli.conftest import Capsim


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the self-test, which takes a second or two."""
    monkeypatch.setattr(self_test, "self_tests", lambda: [SelfTest("known", 1.0, 1.0)])


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder where programs are looked for."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


def program(folder: Path, name: str, *lines: str) -> None:
    path = folder / name
    path.write_text("\n".join([f"#!{sys.executable}", *lines]))
    path.chmod(0o755)


def standings(result: Any) -> dict[str, str]:
    return {check["name"]: check["standing"] for check in result["checks"]}


def test_this_installation_is_well(capsim: Capsim) -> None:
    printed = capsim("doctor", "--json")
    assert (printed.code, printed.err) == (0, "")
    assert printed.json["well"] is True
    found = standings(printed.json)
    assert found["data"] == found["folder"] == found["cores"] == "well"
    assert found["queue: M/D/1 wait, s"] == found["plan: replicas"] == "well"


@pytest.mark.usefixtures("known")
def test_the_text_has_a_line_each(capsim: Capsim) -> None:
    printed = capsim("doctor")
    for name in standings(capsim("doctor", "--json").json):
        assert name in printed.out
    assert all(len(line) <= 100 for line in printed.out.splitlines())


def test_a_wrong_answer_is_a_defect(capsim: Capsim, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(self_test, "self_tests", lambda: [SelfTest("plan: replicas", 3, 2)])
    printed = capsim("doctor", "--json")
    assert printed.code == 4
    assert printed.json["well"] is False
    assert standings(printed.json)["plan: replicas"] == "defect"
    assert "not well: plan: replicas" in printed.err


def test_a_broken_invariant_is_a_defect(capsim: Capsim, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> list[SelfTest]:
        raise InvariantBroken("blocks are left")

    monkeypatch.setattr(self_test, "self_tests", broken)
    printed = capsim("doctor")
    assert printed.code == 4
    assert "blocks are left" in printed.out


def test_data_that_is_not_there_is_to_be_put_right(
    capsim: Capsim, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data, "data_folder", lambda kind: tmp_path / kind)
    printed = capsim("doctor", "--json")
    assert printed.code == 2
    assert standings(printed.json)["data"] == standings(printed.json)["self-test"] == "wrong"


@pytest.mark.usefixtures("known")
def test_a_folder_that_cannot_be_written_is_to_be_changed(
    capsim: Capsim, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(**_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(doctor.tempfile, "TemporaryFile", refused)
    printed = capsim("doctor")
    assert printed.code == 2
    assert "cannot write here: Permission denied" in printed.out


@pytest.mark.usefixtures("known")
def test_an_own_package_that_is_too_old_is_wrong_and_an_extra_is_absent(
    capsim: Capsim, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = ["numpy>=999", "click", 'torch==2.0; extra == "calibrate"', 'numpy>=1.2,<999; extra == "more"']
    monkeypatch.setattr(metadata, "requires", lambda _: asked)
    printed = capsim("doctor", "--json")
    assert printed.code == 2
    found = standings(printed.json)
    assert (found["packages"], found["extra more"]) == ("wrong", "well")
    monkeypatch.setattr(metadata, "requires", lambda _: asked[1:])
    monkeypatch.setattr(installation, "_version", {"click": "8", "numpy": "2.0"}.get)
    printed = capsim("doctor", "--json")
    assert printed.code == 0
    assert standings(printed.json)["extra calibrate"] == "absent"
    assert "pip install 'capsim[calibrate]'" in printed.out


@pytest.mark.parametrize(
    ("asked", "installed", "well"),
    [
        (">=1.24", "1.24.0", True),
        (">=1.24", "2.0rc1", True),
        (">=2.10", "2.9.9", False),
        ("==2.0", "2.0", True),
        ("==2.0", "2.0.1", False),
        ("", "1", True),
        ("", None, False),
    ],
)
def test_versions_are_compared_as_numbers(asked: str, installed: str | None, well: bool) -> None:
    assert Package("numpy", asked, "", installed).well is well


def test_every_requirement_is_read() -> None:
    """Of the package as it is installed here, with its extras."""
    assert len(packages()) == len(metadata.requires("capsim") or [])
    assert {"", "test"} <= {package.extra for package in packages()}


def test_a_gpu_is_told_by_nvidia_smi(programs: Path) -> None:
    program(programs, "nvidia-smi", "print('NVIDIA H200')", "print('NVIDIA H200')")
    assert hardware.gpus() == ("nvidia-smi", ["NVIDIA H200", "NVIDIA H200"])
    assert hardware.in_catalog("NVIDIA H200") == "h200"
    assert hardware.in_catalog("NVIDIA T4") is None


@pytest.mark.usefixtures("known", "programs")
def test_a_gpu_is_shown_with_its_name_in_the_catalog(capsim: Capsim, programs: Path) -> None:
    program(programs, "nvidia-smi", "print('NVIDIA H200')")
    assert "1 x NVIDIA H200, by nvidia-smi; in the catalog: h200" in capsim("doctor").out


def test_a_driver_that_does_not_answer_shows_none(programs: Path) -> None:
    program(programs, "nvidia-smi", "raise SystemExit(9)")
    assert hardware.gpus() == ("nvidia-smi", [])


@pytest.mark.usefixtures("programs")
def test_without_torch_nobody_asks_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hardware, "find_spec", lambda _: None)
    assert hardware.gpus() == ("", [])


@pytest.mark.usefixtures("programs")
def test_torch_is_asked_in_a_process_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "torch.py").write_text(
        "class cuda:\n"
        "    device_count = staticmethod(lambda: 1)\n"
        "    get_device_properties = staticmethod(lambda i: type('P', (), {'name': 'NVIDIA L40S'}))\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(hardware, "find_spec", lambda _: object())
    assert hardware.gpus() == ("torch", ["NVIDIA L40S"])
    assert "torch" not in sys.modules
