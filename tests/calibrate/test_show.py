from __future__ import annotations

import json
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from calibrate.figures import draw_parity, draw_roofline
from calibrate.importers.vllm_bench_forward import read
from calibrate.probe import is_outside, probe_batches
from calibrate.regime import kind_of, shape_text
from calibrate.show import Shown, as_data, show
from capsim.catalog import load_gpu, load_model
from capsim.cost import BatchShape, Chunk, Efficiency, RooflineCost, load_profile
from capsim.errors import BadInput
from tests.calibrate.step_law import REQUEST

SAMPLE = Path(__file__).parent / "samples" / "steps" / "vllm_bench_forward.json"
SLOWER = 1.07
"""The sample's times over the roofline's; see the README beside it."""
MADE_WITH = Efficiency(
    gemm_compute=0.68,
    gemm_bandwidth=0.80,
    attention_compute=0.59,
    attention_bandwidth=0.91,
    attention_latency=12e-6,
)
"""The factors that the sample was made with."""


def roofline_error(new: int, past: int = 0) -> float:
    """Today's roofline against the sample, for a prefill, without the host."""
    model, gpu, batch = load_model("llama-3.1-8b"), load_gpu("h200"), BatchShape((Chunk(new, past),), 0, 0)
    today, then = (RooflineCost(model, gpu, efficiency=each) for each in (Efficiency(), MADE_WITH))
    seconds = [cost.step(batch) - cost.efficiency.host_overhead for cost in (today, then)]
    return seconds[0] / (SLOWER * seconds[1]) - 1


@pytest.fixture(scope="module")
def profile_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("show") / "profile.json"
    read(SAMPLE, REQUEST).write(path)
    return path


@pytest.fixture(scope="module")
def shown(profile_file: Path) -> Shown:
    return Shown.of(load_profile(profile_file))


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Run the command and return its stdout; errors pass through."""

    def run(*arguments: object) -> str:
        show.main([str(argument) for argument in arguments], standalone_mode=False)
        return capsys.readouterr().out

    return run


def test_text_says_where_figures_come_from_and_how_they_are_known(
    run: Callable[..., str], profile_file: Path
) -> None:
    text = run(profile_file)
    for part in (
        "1 x h200",
        "vllm-bench-forward, from vllm_bench_forward.json",
        "0.5000 ms a step, assumed",
        "step_tokens",
        "attention, mixed    new, past, decodes, context",
        "prefill of 2,048 tokens",
        "decode of 256 at 2,048 *",
        "* outside what was measured",
        "the profile against shapes that its tables do not hold",
        "lm_head and sampler were not measured",
    ):
        assert part in text, part


def test_data_has_composed_steps_beside_the_roofline(run: Callable[..., str], profile_file: Path) -> None:
    answer = json.loads(run(profile_file, "--json"))
    steps = {step["name"]: step for step in answer["steps"]}
    assert list(steps) == [
        "prefill of 512 tokens",
        "prefill of 2,048 tokens",
        "prefill of 8,192 tokens",
        "decode of 1 at 2,048",
        "decode of 64 at 2,048",
        "decode of 256 at 2,048",
    ]
    for step in steps.values():
        assert sum(step["shares"].values()) == pytest.approx(1)
        assert step["error"] == pytest.approx(step["roofline"] / step["without_host"] - 1)
        assert step["seconds"] == pytest.approx(step["without_host"] + 0.0005)
    assert steps["decode of 256 at 2,048"]["outside"]
    # Inside the range the sample is a known roofline, SLOWER times: but for lm_head, which is the roofline's own.
    assert steps["prefill of 2,048 tokens"]["error"] == pytest.approx(roofline_error(2048), abs=0.005)


def test_the_roofline_is_signed_and_by_kind_of_step(shown: Shown) -> None:
    errors = {(error.regime, error.size): error for error in shown.errors}
    assert set(errors) == {
        (regime, size) for regime in ("prefill", "decode", "mixed") for size in ("small", "large")
    }
    large = errors["prefill", "large"]
    known = [roofline_error(new, past) for new in (1024, 2048, 4096, 8192) for past in (0, 1024, 4096)]
    assert min(known) - 0.005 <= large.bias <= max(known) + 0.005
    assert sum(error.cases for error in shown.errors) == len(shown.batches)


def test_probes_lie_inside_what_was_measured(shown: Shown) -> None:
    assert not any(is_outside(shown.cost, batch) for batch in shown.batches)
    ranges = shown.profile.ranges
    news = {chunk.new for batch in shown.batches for chunk in batch.chunks}
    assert (min(news), max(news)) == ranges["new"]
    assert probe_batches([shown.cost, shown.cost]) == shown.batches


def test_a_gpu_without_a_data_sheet_is_shown_without_a_roofline(
    run: Callable[..., str], profile_file: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other.json"
    other.write_text(profile_file.read_text().replace('"gpu": "h200"', '"gpu": "abacus"'))
    text = run(other, "--out", tmp_path / "figures")
    assert "no roofline: abacus is not in the catalog" in text
    assert list((tmp_path / "figures").iterdir()) == []
    answer = as_data(Shown.of(load_profile(other)))
    assert answer["roofline_errors"] == []
    assert {step["error"] for step in answer["steps"]} == {None}


def test_figures_are_pictures_and_the_same_every_time(
    run: Callable[..., str], profile_file: Path, tmp_path: Path
) -> None:
    run(profile_file, "--out", tmp_path / "a")
    run(profile_file, "--out", tmp_path / "b")
    names = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert names == ["parity.png", "residuals.png", "roofline.png"]
    for name in names:
        first = (tmp_path / "a" / name).read_bytes()
        assert first == (tmp_path / "b" / name).read_bytes()
        assert first.startswith(b"\x89PNG")
        width, height = struct.unpack(">II", first[16:24])
        assert width > 900
        assert height > 700


def test_the_parity_plot_has_every_shape(shown: Shown) -> None:
    (panel,) = draw_parity(shown).axes
    markers = [line for line in panel.lines if line.get_marker() not in {"None", None, ""}]
    assert sum(np.size(line.get_xdata()) for line in markers) == len(shown.batches)
    assert "ms" in panel.get_xlabel()
    assert "ms" in panel.get_ylabel()


def test_the_roofline_plot_leaves_out_attention_that_was_fitted_to_whole_steps(shown: Shown) -> None:
    (panel,) = draw_roofline(shown).axes
    labels = [str(line.get_label()) for line in panel.lines]
    assert labels[0] == "data sheet: 4.8 TB/s, 989 TFLOP/s"
    assert not any("decode attention" in label for label in labels)
    # What the sample holds is slower than the roofline's efficiencies allow, and those lie below the data sheet.
    sheet, products, reached = (np.max(np.asarray(panel.lines[place].get_ydata())) for place in (0, 1, -1))
    assert reached < products < sheet


def test_a_folder_that_cannot_be_written_is_refused(profile_file: Path, tmp_path: Path) -> None:
    blocked = tmp_path / "blocked"
    blocked.write_text("a file")
    with pytest.raises(BadInput, match="--out: cannot write to"):
        show.main([str(profile_file), "--out", str(blocked / "figures")], standalone_mode=False)


def test_steps_are_named_by_what_is_in_them() -> None:
    mixed = BatchShape((Chunk(512, 0), Chunk(512, 0)), 64, 64 * 1024)
    assert shape_text(mixed) == "prefill 2 x 512 after 0 + 64 decodes at 1,024"
    assert shape_text(BatchShape((), 1, 2048)) == "1 decode at 2,048"
    assert kind_of(mixed) == ("mixed", "large")
    assert kind_of(mixed._replace(chunks=())) == ("decode", "large")
    assert kind_of(BatchShape((Chunk(1023, 0),), 0, 0)) == ("prefill", "small")
    assert kind_of(BatchShape((Chunk(1023, 0),), 1, 10)) == ("mixed", "large")


def test_a_model_that_the_catalog_does_not_hold_is_shown_by_its_shapes(tmp_path: Path) -> None:
    model = replace(REQUEST.model, name="somebody-elses-8b")
    path = tmp_path / "profile.json"
    read(SAMPLE, replace(REQUEST, model=model)).write(path)
    named = Shown.of(load_profile(path))
    assert named.roofline is not None
    assert [step.roofline for step in named.steps] == [
        step.roofline for step in Shown.of(read(SAMPLE, REQUEST).profile()).steps
    ]
