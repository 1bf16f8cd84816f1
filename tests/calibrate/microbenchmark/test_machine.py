from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from calibrate.microbenchmark.machine import Condition, driver_version, gpu_condition, smi_path
from calibrate.microbenchmark.run_command import refuse_busy
from capsim.errors import BadInput

Smi = Callable[[str], None]


@pytest.fixture
def smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Smi:
    """Puts an nvidia-smi in the path that runs these lines of a shell."""

    def install(script: str) -> None:
        path = tmp_path / "nvidia-smi"
        path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")

    return install


def answering(gpu: str, processes: str = "") -> str:
    return f'case "$*" in *compute-apps*) printf "{processes}" ;; *driver*) echo 575.57.08 ;; *) echo "{gpu}" ;; esac'


def test_an_idle_gpu_is_not_busy(smi: Smi) -> None:
    smi(answering("1980, 41, 118.20, 0, 0x0000000000000001"))
    condition = gpu_condition()
    assert condition == Condition(1980.0, 41.0, 118.2, 0.0)
    assert not condition.busy
    assert driver_version() == "575.57.08"


def test_processes_of_others_are_named_with_their_memory(smi: Smi) -> None:
    smi(answering("1980, 41, 118.20, 0, 0x0", f"4711, 20480\\n{os.getpid()}, 512\\n"))
    condition = gpu_condition()
    assert condition.others == ((4711, 20480 << 20),)
    assert "4711 (20GiB)" in condition.busy


def test_a_gpu_that_works_for_nobody_known_is_busy(smi: Smi) -> None:
    smi(answering("1980, 41, 300, 97, 0x0"))
    assert "97 % busy" in gpu_condition().busy


def test_slowdowns_are_told_and_the_power_cap_is_none(smi: Smi) -> None:
    smi(answering("1200, 92, 700, 100, 0x0000000000000044"))
    assert gpu_condition().slowdowns == ("the hardware's temperature limit",)


@pytest.mark.parametrize("script", ["exit 9", "echo", "echo [N/A], [N/A], [N/A], [N/A], [N/A]"])
def test_a_driver_that_tells_nothing_is_no_fault(smi: Smi, script: str) -> None:
    smi(script)
    assert gpu_condition() == Condition()


def test_no_driver_is_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert smi_path() is None
    assert gpu_condition() == Condition()
    assert driver_version() == ""


def test_a_busy_gpu_is_refused_with_what_to_do_unless_forced(capsys: pytest.CaptureFixture[str]) -> None:
    busy = Condition(others=((4711, 1 << 30),))
    with pytest.raises(BadInput, match=r"4711 \(1GiB\), expected an idle GPU: .*CUDA_VISIBLE_DEVICES"):
        refuse_busy("cuda", busy, force=False)
    refuse_busy("cuda", busy, force=True)
    assert "will not repeat well" in capsys.readouterr().err


def test_a_busy_cpu_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    refuse_busy("cpu", Condition(load=1000.0), force=False)
    assert "1000.0 processes wait" in capsys.readouterr().err


def test_the_gpu_that_cuda_shows_first_is_asked(smi: Smi, monkeypatch: pytest.MonkeyPatch) -> None:
    smi('case "$*" in *--id=3*) echo "1980, 41, 118.20, 0, 0x0" ;; *) exit 1 ;; esac')
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,1")
    assert gpu_condition().clock == 1980.0
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    assert gpu_condition().clock is None
