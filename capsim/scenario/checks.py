"""What several keys of a scenario must agree on, and what must be there at all."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping
from collections.abc import Sequence as Many
from pathlib import Path

from capsim.catalog import Gpu, Model, load_gpu, load_model
from capsim.catalog.data import data_folder, data_names, data_path
from capsim.catalog.loader import is_path
from capsim.catalog.schema import closest, shown
from capsim.documents import Document, KeyPath
from capsim.errors import BadInput, Fault
from capsim.scenario.file import (
    EngineSection,
    LengthSection,
    PrefixSection,
    PrioritySection,
    ScenarioSection,
    percentile,
)
from capsim.units import format_share

REQUIRED = {
    "version": "1",
    "name": "a name for this scenario",
    "model": "the name of a model, e.g. llama-3.1-8b",
    "gpu": "the name of a GPU, e.g. h200",
    "demand": "target, and trace or synthetic",
    "slo": "at least one objective such as ttft: {p95: 500ms}",
}


COUNT = "a whole number, at least 1"
BESIDE = "a file beside the scenario or an absolute path"


class Checks:
    """Looks at the sound part of a scenario file and collects faults.

    Args:
        section: the file without its faulty values.
        document: the file, for the places of faults.
        left_out: paths of the faulty values; a check that needs one of them says nothing, since the value it
            would look at is a default.
        faults: each fault found is appended here.
    """

    def __init__(
        self,
        section: ScenarioSection,
        document: Document,
        left_out: Iterable[KeyPath],
        faults: list[Fault],
    ) -> None:
        self.section = section
        self.document = document
        self.left_out = frozenset(left_out)
        self.faults = faults
        self.model: Model | None = None
        self.gpu: Gpu | None = None
        self.files: dict[KeyPath, Path] = {}

    def run(self) -> None:
        """Run every check; leaves `model`, `gpu` and `files` (paths by their key) for the scenario."""
        # A misspelt key that is missing under its right name is one fault, not two.
        misspelt = {closest(str(path[0]), REQUIRED) for path in self.left_out if len(path) == 1}
        for key, expected in REQUIRED.items():
            if getattr(self.section, key) is None and self.sound((key,)) and key not in misspelt:
                self.report((key,), "is missing", expected, of_key=True)
        self.look_up()
        self.engine()
        self.step_cost()
        self.demand()
        self.fleet()
        self.objectives()
        self.validation()

    def sound(self, *paths: KeyPath) -> bool:
        """Whether nothing on, in or around these paths was left out."""
        return not any(
            out[: len(path)] == path or path[: len(out)] == out for path in paths for out in self.left_out
        )

    def report(
        self, path: KeyPath, what: str, expected: str = "", suggestion: str = "", *, of_key: bool = False
    ) -> None:
        """Note a fault at a value, or at its key."""
        self.faults.append(self.document.fault(path, what, expected, suggestion, of_key=of_key))

    def look_up(self) -> None:
        """Find the model and the GPU in the catalog."""
        if self.section.model is not None:
            self._look_up_model(self.section.model)
        try:
            self.gpu = load_gpu(self.section.gpu) if self.section.gpu else None
        except BadInput as error:
            self._adopt(("gpu",), error)

    def _look_up_model(self, name: str) -> None:
        """A name of the catalog, or a file: beside the scenario, or at an absolute path."""
        folder = self._folder(("model",))
        path = Path(os.path.realpath(folder / name))  # which a link to itself does not trouble
        if is_path(name) and not path.is_file():
            self.report(("model",), f"there is no file {shown(name)}", BESIDE)
            return
        try:
            self.model = load_model(name, folder)
        except BadInput as error:
            self._adopt(("model",), error)
        if is_path(name) and path.parent != data_folder("models").resolve():
            self.files["model",] = path

    def _adopt(self, path: KeyPath, error: BadInput) -> None:
        """Put a catalog's fault where the scenario names the entry; a fault inside a catalog file stays there."""
        for fault in error.faults:
            if isinstance(fault, Fault) and fault.line is None:
                self.report(path, fault.what, fault.expected, fault.suggestion)
            elif isinstance(fault, Fault):
                self.faults.append(fault)

    def engine(self) -> None:
        """What the engine's settings must agree on, also with the model and the GPU."""
        engine = self.section.engine
        sequences, tokens = ("engine", "max_num_seqs"), ("engine", "max_num_batched_tokens")
        if self.sound(sequences, tokens) and engine.max_num_batched_tokens < engine.max_num_seqs:
            what = f"{engine.max_num_batched_tokens} is less than max_num_seqs ({engine.max_num_seqs})"
            self.report(tokens, what, f"at least {engine.max_num_seqs}")
        override = ("engine", "num_gpu_blocks_override")
        if engine.num_gpu_blocks_override is not None and engine.num_gpu_blocks is not None:
            self.report(override, "num_gpu_blocks is stated too, and is the same setting", "one of them")
        self._offload(engine)
        if self.model is not None:
            self._engine_and_model(engine, self.model)

    def _offload(self, engine: EngineSection) -> None:
        """Tiers have names of their own, and need an engine that looks for what is in them."""
        if engine.kv_offload and not engine.enable_prefix_caching:
            what = "offloaded KV is found as a prefix is, and enable_prefix_caching is false"
            self.report(("engine", "kv_offload"), what, "enable_prefix_caching: true", of_key=True)
        names = [tier.name for tier in engine.kv_offload]
        for index, name in enumerate(names):
            if name in names[:index]:
                place = ("engine", "kv_offload", index, "name")
                self.report(place, f"there is a tier {shown(name)} before", "each name once")

    def _engine_and_model(self, engine: EngineSection, model: Model) -> None:
        length = engine.max_model_len
        if length is not None and length > model.max_position_embeddings:
            what = f"{length} is longer than {model.name} was published for"
            self.report(("engine", "max_model_len"), what, f"at most {model.max_position_embeddings}")
        path, size = ("engine", "tensor_parallel_size"), engine.tensor_parallel_size
        if self.sound(path) and not model.splits_over(size):
            sizes = [str(other) for other in range(1, model.attention_heads + 1) if model.splits_over(other)]
            columns = " or ".join(str(width) for width in model.mlp_columns)
            what = (
                f"{size} GPUs cannot share {model.name} ({model.attention_heads} attention heads, "
                f"{model.kv_heads} KV heads, {columns} MLP columns)"
            )
            self.report(path, what, f"one of {', '.join(sizes)}")
        path, size = ("engine", "pipeline_parallel_size"), engine.pipeline_parallel_size
        if self.sound(path) and size > model.layers:
            self.report(path, f"{size} stages cannot hold {model.layers} layers", f"at most {model.layers}")
        self._experts(engine, model)
        if engine.kv_offload and (model.window is not None or model.linear is not None):
            what = f"{model.name} has layers with windows or states, whose prefixes are not cached"
            self.report(("engine", "kv_offload"), what, "no tier", of_key=True)
        if engine.limit_mm_per_prompt.image and model.vision is None:
            what = f"the catalog knows no vision encoder of {model.name}"
            self.report(("engine", "limit_mm_per_prompt", "image"), what, "0")

    def _experts(self, engine: EngineSection, model: Model) -> None:
        """Experts are dealt out whole, or split over the ranks of all data-parallel groups."""
        if model.experts is None:
            if engine.enable_expert_parallel:
                self.report(("engine", "enable_expert_parallel"), f"{model.name} has no experts", "false")
            return
        path = ("engine", "data_parallel_size")
        ranks = engine.tensor_parallel_size * engine.data_parallel_size
        if engine.data_parallel_size == 1 or engine.enable_expert_parallel or model.experts_split_over(ranks):
            return
        if self.sound(path, ("engine", "tensor_parallel_size"), ("engine", "enable_expert_parallel")):
            columns = model.experts.intermediate_size
            what = f"{ranks} GPUs do not divide the {columns} columns of {model.name}'s experts"
            self.report(path, what, "enable_expert_parallel: true")

    def step_cost(self) -> None:
        """A profile's file must exist."""
        path = getattr(self.section.step_cost, "path", None)
        if path is not None:
            self._file(("step_cost", "path"), path, "profiles", (".yaml", ".yml", ".json"))

    def demand(self) -> None:
        """Exactly one source of requests, and what each distribution asks of its own keys."""
        demand = self.section.demand
        if demand is None:
            return
        if demand.target is None and self.sound(("demand", "target")):
            self.report(
                ("demand", "target"), "is missing", "a rate such as '80/s' or '17000 tokens/s'", of_key=True
            )
        trace, synthetic = ("demand", "trace"), ("demand", "synthetic")
        # Whether they are stated at all, which they are also where they are at fault.
        stated = [key for key in (trace, synthetic) if self.document.data["demand"].get(key[1]) is not None]
        if not stated:
            self.report(("demand",), "neither trace nor synthetic is stated", "one of them", of_key=True)
        if len(stated) == 2:
            self.report(synthetic, "trace is stated too", "one of trace and synthetic", of_key=True)
        if demand.trace is not None:
            self._file(
                (*trace, "path"), demand.trace.path, "traces", (".csv", ".csv.gz", ".jsonl", ".jsonl.gz")
            )
            hashed = demand.trace.format == "mooncake" or not self.sound((*trace, "format"))
            if demand.trace.block_size is not None and not hashed:
                what = f"{demand.trace.format} traces have no hash ids"
                self.report((*trace, "block_size"), what, "format: mooncake")
        if demand.synthetic is not None:
            self._synthetic()
        self._sampling(demand.sampling)

    def _sampling(self, sampling: Mapping[str, object]) -> None:
        """Parameters that decide how many sequences a request has; the others are only recorded."""
        place: KeyPath = ("demand", "sampling")
        counts = {name: sampling.get(name) for name in ("n", "best_of", "beam_width")}
        wrong = {name: value for name, value in counts.items() if value is not None and not _is_count(value)}
        for name, value in wrong.items():
            self.report((*place, name), f"{shown(value)} is no number of sequences", COUNT)
        n, best_of = counts["n"] or 1, counts["best_of"]
        if not wrong and isinstance(n, int) and isinstance(best_of, int) and best_of < n:
            self.report((*place, "best_of"), f"{best_of} is less than n ({n})", f"at least {n}")
        beams = sampling.get("use_beam_search")
        if beams is not None and not isinstance(beams, bool):
            what = f"{shown(beams)} is neither true nor false"
            self.report((*place, "use_beam_search"), what, "true or false")

    def _synthetic(self) -> None:
        assert self.section.demand is not None
        assert self.section.demand.synthetic is not None
        synthetic = self.section.demand.synthetic
        place: KeyPath = ("demand", "synthetic")
        arrivals = synthetic.arrivals
        if self.sound((*place, "arrivals")):
            if arrivals.process == "gamma" and arrivals.burstiness is None:
                self.report((*place, "arrivals"), "gamma needs burstiness", "a number above 0; 1 is Poisson")
            if arrivals.process != "gamma" and arrivals.burstiness is not None:
                what = f"{arrivals.process} arrivals have no burstiness"
                self.report((*place, "arrivals", "burstiness"), what, "process: gamma")
        for key in ("prompt_tokens", "output_tokens"):
            low, high = (getattr(getattr(synthetic, key), name, None) for name in ("low", "high"))
            if low is not None and high is not None and high < low:
                self.report((*place, key, "high"), f"{high} is less than low ({low})", f"at least {low}")
        if synthetic.prefix is not None:
            self._prefix(synthetic.prefix, synthetic.prompt_tokens)
        if synthetic.priorities and self.sound((*place, "priorities")):
            self._priorities(synthetic.priorities)

    def _priorities(self, priorities: Many[PrioritySection]) -> None:
        """Each priority once, and every request has one."""
        place: KeyPath = ("demand", "synthetic", "priorities")
        values = [each.priority for each in priorities]
        for index, value in enumerate(values):
            if value in values[:index]:
                self.report((*place, index, "priority"), f"{value} is stated before", "each priority once")
        total = sum(each.share for each in priorities)
        if not math.isclose(total, 1.0, abs_tol=1e-9):
            self.report(place, f"the shares sum up to {format_share(total)}", "100%", of_key=True)

    def _prefix(self, prefix: PrefixSection, prompt: LengthSection) -> None:
        """A prefix that no prompt is long enough for would be shared by none."""
        place: KeyPath = ("demand", "synthetic")
        limits = (getattr(prompt, name, None) for name in ("value", "high", "max"))
        longest = next((limit for limit in limits if limit is not None), None)
        sound = self.sound((*place, "prefix", "tokens"), (*place, "prompt_tokens"))
        if sound and longest is not None and prefix.tokens > longest:
            what = f"{prefix.tokens} is longer than any prompt"
            self.report((*place, "prefix", "tokens"), what, f"at most {longest}")

    def fleet(self) -> None:
        """Failures name a replica that there is."""
        fleet = self.section.fleet
        if not self.sound(("fleet", "replicas")):
            return
        for index, failure in enumerate(fleet.failures):
            if failure.replica >= fleet.replicas:
                what = f"there is no replica {failure.replica}"
                expected = "0" if fleet.replicas == 1 else f"0 to {fleet.replicas - 1}"
                self.report(("fleet", "failures", index, "replica"), what, expected)

    def objectives(self) -> None:
        """At least one gate, and no percentile twice."""
        slo = self.section.slo
        if slo is None:
            return
        latency = {metric: getattr(slo, metric) for metric in ("ttft", "tpot", "itl", "e2e")}
        if self.sound(("slo",)) and not any(latency.values()) and slo.error_rate is None and not slo.quality:
            self.report(("slo",), "states no objective", REQUIRED["slo"])
        for metric, gates in latency.items():
            seen: dict[float, str] = {}
            for name in gates:
                first = seen.setdefault(percentile(name), name)
                if first != name:
                    self.report(("slo", metric, name), f"the same percentile as {first}", "each once")

    def validation(self) -> None:
        """A validation's file must exist."""
        if self.section.validation is not None:
            self._file(("validation",), self.section.validation, "validations", (".json",))

    def _folder(self, key: KeyPath) -> Path:
        """Where a relative path starts: beside the file that states it."""
        return Path(self.document.origin(key)).resolve().parent

    def _file(self, key: KeyPath, name: str, kind: str, suffixes: tuple[str, ...]) -> None:
        """Find a file beside the scenario or among the shipped ones."""
        found = find_file(name, self._folder(key), kind, suffixes)
        if found is not None:
            self.files[key] = found
            return
        shipped = data_names(kind, suffixes)
        known = f", or one of the shipped ones: {', '.join(shipped)}" if shipped else ""
        expected = f"{BESIDE}{known}"
        self.report(key, f"there is no file {shown(name)}", expected, closest(Path(name).name, shipped))


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def find_file(name: str, base: Path, kind: str, suffixes: tuple[str, ...]) -> Path | None:
    """Absolute path of a named file: relative to `base`, or shipped; a shipped one needs no suffix."""
    beside = base / Path(name).expanduser()
    if beside.is_file():
        return beside.resolve()
    if Path(name).name != name:
        return None
    shipped = (data_path(kind, name + suffix) for suffix in ("", *suffixes))
    return next((path.resolve() for path in shipped if path.is_file()), None)
