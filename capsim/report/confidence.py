"""How sure an answer is: the bracket, the gates, the step cost, and what was left out."""

from __future__ import annotations

from capsim.report import Json
from capsim.report.gates import VERDICTS, judged_gates
from capsim.report.number import NOTHING, count, duration, number, share
from capsim.report.table import paragraph
from capsim.report.validation import signed

OUTSIDE = 0.01
"""Share of steps outside the measured range from which the report warns: fewer cannot move a p95."""


def confidence_section(result: Json) -> list[str]:
    """Everything that speaks for and against the answer."""
    confidence, point = result["confidence"], result["operating_point"]
    lines = [*_bullet(bracket(result)), "", *judged_gates(point["gates"])]
    level = next((gate["attained"]["confidence"] for gate in point["gates"] if gate["attained"]), None)
    if level is not None:
        lines += paragraph(
            f"Interval of the mean share inside over independent runs at {share(level)}, so that all looks together "
            "keep 95%. A gate passes if the whole interval does."
        )
    lines.append("")
    sentences = [
        replications(confidence),
        *step_cost(confidence["step_cost"], confidence["steps_outside"]),
        *validation(confidence["validation"]),
        slower_steps(confidence["slowdowns"]),
        *replayed(confidence["replays"], result["demand"]),
        *demand_warnings(result["demand"]),
        confidence["quality"][:1].upper() + confidence["quality"][1:] + ".",
    ]
    for sentence in sentences:
        lines += _bullet(sentence)
    return lines + not_modelled(confidence["not_modelled"])


def step_cost(cost: Json, outside: float | None) -> list[str]:
    """What the seconds of a step rest on, as sentences; a warning unless they were measured."""
    described = cost["description"]
    if cost["source"] in ("measured", "derived"):
        warning = "WARNING: " if outside is not None and outside > OUTSIDE else ""
        elsewhere = (
            "WARNING: the kernels were not measured on this GPU. " if cost["source"] == "derived" else ""
        )
        return [
            f"{elsewhere}Step cost {cost['source']}: {described}.",
            *(f"The profile was {difference}." for difference in cost.get("differences", [])),
            *_without_measurement(cost),
            f"{warning}{share(outside)} of the simulated steps lay outside the measured range.",
        ]
    if cost["source"] == "analytic":
        warning = f"WARNING: no step was measured: the step cost is computed, {described}."
    else:
        warning = f"WARNING: no step was measured: the step cost is stated, {described}."
    unmeasured = [
        f"{name}, {figure['tag']} ({figure['source']})"
        for name, figure in cost.get("figures", {}).items()
        if figure["tag"] in ("assumed", "stated")
    ]
    return [
        warning,
        *([f"Its figures without a measurement: {'; '.join(unmeasured)}."] if unmeasured else []),
        "Share of steps outside the measured range: nothing was measured.",
    ]


def _without_measurement(cost: Json) -> list[str]:
    """Which parts of a profile are not measured, by how they are known."""
    known: dict[str, list[str]] = {}
    for name, figure in cost.get("figures", {}).items():
        known.setdefault(figure["tag"], []).append(name)
    parts = [f"{', '.join(known[tag])} {tag}" for tag in ("fitted", "derived", "assumed") if tag in known]
    return [f"Its parts without a measurement: {'; '.join(parts)}."] if parts else []


def validation(known: Json | None) -> list[str]:
    """How far off predictions for this service were, and whether its load was among those, as sentences."""
    if known is None:
        return []
    if not known["same_service"]:
        differences = "; ".join(known["differences"])
        return [f"WARNING: validated for another service, so that its errors are not used: {differences}."]
    if not known["score"]:
        return ["WARNING: the validation has no run that counts, so that no error is known."]
    return [
        _score(known),
        *_validated_load(known),
        *(f"WARNING: {note}." for note in known["notes"]),
    ]


def _score(known: Json) -> str:
    score, runs = known["score"], known["runs"]
    sizes = ((metric, figure["mean_size"]) for metric, figure in score.items())
    means = ", ".join(
        f"{metric.upper()} {NOTHING if size is None else f'{100 * size:.1f}%'}" for metric, size in sizes
    )
    furthest = ", ".join(
        f"{metric.upper()} {figure['worst_statistic']} {signed(figure['worst'])}"
        for metric, figure in score.items()
    )
    measured = f"{count(runs)} measured run{'' if runs == 1 else 's'} ({count(known['requests'])} requests)"
    return (
        f"Validated on {measured}. Average error of the mean: {means}. Furthest off, of mean, p50 and p95: "
        f"{furthest}."
    )


def _validated_load(known: Json) -> list[str]:
    """Whether the load of a replica was measured, as a sentence; none where one of the two is not known."""
    planned, measured = known["rate_per_replica"], known["validated_rate_per_replica"]
    if known["inside"] is None:
        return []
    said = f"{_range(planned)} requests/s a replica"
    if known["inside"]:
        return [f"The load of {said} lies inside the validated {_range(measured)}."]
    (least, most), (low, high) = planned, measured
    by = [f"{number(100 * (most / high - 1))}% above"] if most > high else []
    by += [f"{number(100 * (1 - least / low))}% below"] if least < low else []
    return [
        f"WARNING: the load of {said} lies outside the validated {_range(measured)}, {' and '.join(by)}: how far off "
        "it is was not measured."
    ]


def _range(rates: list[float]) -> str:
    low, high = map(number, rates)
    return low if low == high else f"{low} to {high}"


PRIORITIES_IGNORED = (
    "requests have priorities, and they are ignored: the engine's scheduling_policy is fcfs, not priority"
)


def demand_warnings(demand: Json) -> list[str]:
    """What is odd about the demand, as sentences."""
    warnings = [f"Note on the trace: {note}" for note in demand.get("notes", [])]
    if demand["unservable_share"]:
        warnings.insert(0, unservable(demand["unservable_share"]))
    if demand.get("priorities") == "ignored":
        warnings.insert(0, f"WARNING: {PRIORITIES_IGNORED}.")
    if isinstance(demand["prefix_reuse"], float) and demand["prefix_reuse"] > 0:
        warnings.append(_reuse(demand))
    return warnings


def _reuse(demand: Json) -> str:
    """What the answer takes for granted where prompts begin alike."""
    most = f"At most {share(demand['prefix_reuse'])} of the prompt tokens can be found in a cache"
    if demand["kind"] == "trace":
        return f"{most}; at any rate prompts come back after as many other requests as recorded."
    return f"{most}; prompts choose their beginning at random."


def unservable(of_requests: float) -> str:
    """A warning that some requests are rejected whatever the fleet."""
    return (
        f"WARNING: {share(of_requests)} of the requests exceed max_model_len or the whole KV cache: they are rejected "
        "and count as errors, whatever the fleet."
    )


def not_modelled(names: list[str]) -> list[str]:
    """What the simulation leaves out."""
    lines = _bullet("Not modelled:")
    for name in names:
        lines += paragraph(name, "-", depth=2)
    return lines


def bracket(result: Json) -> str:
    """Between which rates the operating point lies, as a sentence."""
    point = result["operating_point"]
    low, high = point["bracket"]
    verdict = next(tested["verdict"] for tested in result["sweep"] if tested["rate"] == high)
    sentence = f"Operating point of one replica: passes at {number(low)} requests/s, "
    if verdict == "fail":
        return f"{sentence}fails at {number(high)}."
    sentence += f"undecided from {number(high)}, "
    fails = point["fails_at"]
    return sentence + (f"fails at {number(fails)}." if fails else "not shown to fail at any rate tried.")


def replications(confidence: Json) -> str:
    """What the runs of the chosen fleet say of those that were not made, as a sentence."""
    runs, could_fail = confidence["replications"], confidence["runs_that_could_fail"]
    if could_fail is None:
        return f"The fleet passes on the mean of at least {runs} runs a load; some of its runs missed a gate."
    return (
        f"Every run of the fleet passed every gate, at least {runs} a load. So few leave room: up to "
        f"{share(round(could_fail, 2))} of such runs could still fail (rule of three, 95%)."
    )


def slower_steps(slowdowns: list[Json]) -> str:
    """How much longer steps may be before the fleet no longer passes, as a sentence."""
    holds = [f"{number(100 * (slow['factor'] - 1))}%" for slow in slowdowns if slow["verdict"] == "pass"]
    first = next((slow for slow in slowdowns if slow["verdict"] != "pass"), None)
    sentence = f"The fleet still passes with every step {holds[-1]} longer" if holds else ""
    if first is None:
        return f"{sentence}; more was not tried." if holds else "Longer steps were not tried."
    reasons = "; ".join(
        f"{trial['name']}: {trial['reason']}" for trial in first["trials"] if trial["verdict"] != "pass"
    )
    end = f"at {number(100 * (first['factor'] - 1))}% ({reasons})"
    if not holds:
        return f"WARNING: with every step longer the fleet {VERDICTS[first['verdict']]} already {end}."
    return f"{sentence}; it {VERDICTS[first['verdict']]} {end}."


def replayed(replays: list[Json], demand: Json) -> list[str]:
    """The recorded demand against the fleet: the trace itself, and its rate at its own pace."""
    sentences = []
    literal = [replay for replay in replays if replay["kind"] == "literal"]
    if literal:
        ends = [f"{_outcome(replay)}{_pace(replay['rate'], demand.get('rate'))}" for replay in literal]
        sentences.append(f"Literal replay of the trace, one run each: {'; '.join(ends)}.")
    paced = [replay for replay in replays if replay["kind"] == "own pace"]
    if paced:
        length = duration(paced[0]["duration"])
        ends = [_outcome(replay) for replay in paced]
        sentences.append(
            f"Resample over the trace's own {length}, so that peaks last as long as recorded, one run each: "
            f"{'; '.join(ends)}."
        )
    missed = any(not replay["passed"] for replay in replays)
    return [f"WARNING: {sentence}" if missed and "FAILS" in sentence else sentence for sentence in sentences]


def _outcome(replay: Json) -> str:
    missed = ", ".join(gate["name"] for gate in replay["gates"] if not gate["passed"])
    return f"{replay['load']} {'passes' if replay['passed'] else f'FAILS {missed}'}"


def _pace(rate: float, recorded: float | None) -> str:
    if not recorded:
        return ""
    if rate >= recorded:
        return f" ({number(rate / recorded)} times as fast, which overstates bursts)"
    return f" ({number(recorded / rate)} times as slow, which understates bursts)"


def _bullet(sentence: str) -> list[str]:
    return paragraph(sentence, "-")
