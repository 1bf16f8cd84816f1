"""The memory table of a rank with what was measured in place of what the rules say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from capsim.memory.question import MemoryLine, MemoryQuestion, gib
from capsim.memory.readings import SAID, Readings, activations, non_torch
from capsim.memory.workspace import Workspace

_ENCODER = {
    "weights": ("vision encoder",),
    "activations": ("encoder cache", "pixels", "encoder activations"),
}
"""Lines of images that an engine prints as part of another: its encoder's weights, the images of its profiling run."""


def readings_lines(question: MemoryQuestion, readings: Readings) -> tuple[MemoryLine, ...]:
    """The lines above the KV cache, those that were measured in place of the rules', each tagged.

    Args:
        question: the settings that are asked for.
        readings: of the same model on the same GPU, with the same ranks and precision.
    """
    if readings.total is not None:
        question = replace(question, gpu=replace(question.gpu, memory=readings.total.bytes))
    deductions = question.deductions()
    found = dict(_Measured(question, readings, {line.name: line for line in deductions}).lines())
    return tuple(found.get(line.name, line) for line in deductions)


@dataclass(frozen=True)
class _Measured:
    """Lines that readings replace.

    Attributes:
        question: the settings that are asked for.
        readings: what was measured.
        rules: the rules' lines, by name.
    """

    question: MemoryQuestion
    readings: Readings
    rules: Mapping[str, MemoryLine]

    def lines(self) -> Iterator[tuple[str, MemoryLine]]:
        """By name; what was not measured is left out."""
        for line in (
            *self._total(),
            *self._weights(),
            *self._activations(),
            *self._outside(),
            *self._graphs(),
        ):
            yield line.name, line

    def _total(self) -> Iterator[MemoryLine]:
        reading = self.readings.total
        if reading is not None:
            yield MemoryLine("GPU memory", reading.bytes, reading.tag, SAID[reading.source])

    def _weights(self) -> Iterator[MemoryLine]:
        reading = self.readings.weights
        if reading is not None:
            line = MemoryLine("weights", -reading.bytes, reading.tag, SAID[reading.source])
            yield self._less_images(line) if reading.of_engine else line

    def _activations(self) -> Iterator[MemoryLine]:
        peaks = self.readings.activations
        if peaks is not None:
            found = activations(self.question, peaks)
            line = MemoryLine("activations", -found.bytes, found.tag, found.note)
            yield self._less_images(line) if peaks.of_engine else line

    def _outside(self) -> Iterator[MemoryLine]:
        """What the microbenchmark sees outside PyTorch is its CUDA context, which no budget is charged with."""
        reading = self.readings.non_torch
        if reading is None:
            return
        line = self.rules["outside PyTorch"]
        if not reading.of_engine:
            context = f"{gib(reading.bytes)} of torch's own, outside the budget"
            yield replace(line, note=f"{line.note}; {context}")
            return
        found = non_torch(self.question, reading)
        yield MemoryLine(line.name, -found.bytes, found.tag, found.note)
        if "communication" in self.rules:
            yield MemoryLine("communication", 0, reading.tag, "in the line above")

    def _graphs(self) -> Iterator[MemoryLine]:
        """The estimate is what the budget loses; what was captured beside it is only said."""
        captured, estimate = self.readings.graphs, self.readings.estimated_graphs
        if self.question.enforce_eager:
            return
        said = "" if captured is None else f"{gib(captured.bytes)} captured"
        if not Workspace.of(self.question.engine_version).graphs_inside:
            if captured is not None:
                yield MemoryLine("CUDA graphs", 0, captured.tag, f"{said}, outside the budget")
        elif estimate is not None:
            note = f"estimated by the engine, {said}".removesuffix(", ")
            yield MemoryLine("CUDA graphs", -estimate.bytes, estimate.tag, note)
        elif captured is not None and not captured.of_engine:
            yield MemoryLine("CUDA graphs", -captured.bytes, captured.tag, SAID[captured.source])

    def _less_images(self, line: MemoryLine) -> MemoryLine:
        """A line of an engine without what images take, which has lines of its own."""
        images = sum(self.rules[name].bytes for name in _ENCODER[line.name] if name in self.rules)
        if not images:
            return line
        return replace(line, bytes=line.bytes - images, note=f"{line.note}, less what images take")
