"""The page as a whole: one sound file that needs nothing else, with the result's figures, each with its tag."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from capsim.report import Json
from capsim.report.number import count, number, share
from capsim.report.page.document import page_html
from capsim.report.page.tag import MEANINGS
from tests.report.page.conftest import COMMAND, Answer
from tests.report.page.parsed import Node, parse
from tests.report.results import stored, with_failed_requests, without_latency_gates

LARGEST = 3_000_000
"""Bytes of a page."""
METRICS = ("ttft", "tpot", "e2e")
UNTAGGED = ("style", "script", "title")
OUTSIDE = re.compile(r"https?:|//|url\(|@import|src=", re.IGNORECASE)


def figures(value: Any) -> Iterator[float]:
    """Every figure of a result."""
    if isinstance(value, dict):
        for part in value.values():
            yield from figures(part)
    elif isinstance(value, list):
        for part in value:
            yield from figures(part)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield float(value)


def section(root: Node, title: str) -> Node:
    """A part of the evidence."""
    return next(node for node in root.all("details") if any(head.text == title for head in node.all("h3")))


def values(node: Node) -> list[float]:
    return [float(each.attributes["value"]) for each in node.all("data")]


def cells(node: Node) -> list[list[str]]:
    rows = node.first("tbody").all("tr")
    return [[cell.text for cell in row.children if isinstance(cell, Node)] for row in rows]


def test_a_page_is_sound_and_small(answer: Answer) -> None:
    root = parse(answer.page)
    assert len(answer.page.encode()) < LARGEST
    identities = [node.attributes["id"] for node in root.all() if "id" in node.attributes]
    assert len(identities) == len(set(identities))
    named = {word for node in root.all() for word in node.attributes.get("aria-labelledby", "").split()}
    assert named <= set(identities)


def test_nothing_comes_from_outside(answer: Answer) -> None:
    root = parse(answer.page)
    written = " ".join(
        [*(node.text for name in ("style", "script") for node in root.all(name))]
        + [
            value
            for node in root.all()
            for key, value in node.attributes.items()
            if key in ("src", "href", "style")
        ]
    )
    assert OUTSIDE.findall(written) == []
    assert {node.attributes["href"] for node in root.all("link")} == {"data:,"}
    assert not list(root.all("img")) + list(root.all("iframe")) + list(root.all("object"))


def test_it_is_read_without_its_script(answer: Answer) -> None:
    """The script only copies: the button is hidden until it runs, and nothing else is."""
    root = parse(answer.page)
    assert [node.name for node in root.all() if "hidden" in node.attributes] == ["button"]


def test_every_figure_has_its_tag(answer: Answer) -> None:
    for text, node in parse(answer.page).strings():
        if not re.search(r"\d", text) or any(each.name in UNTAGGED for each in node.ancestors):
            continue
        tags = next(
            (each.attributes["data-tag"] for each in node.ancestors if "data-tag" in each.attributes), ""
        )
        words = tags.replace("data sheet", "data_sheet").split()
        assert words, f"without a tag: {text!r}"
        assert {word.replace("_", " ") for word in words} <= set(MEANINGS)


def test_every_tag_in_print_has_a_meaning_on_the_page(plan: Answer) -> None:
    root = parse(plan.page)
    explained = {node.text for node in root.first("dl", class_="legend").all("dt")}
    printed = {node.text for node in root.all("span", class_="word")}
    assert printed <= explained == set(MEANINGS)


def test_the_same_result_gives_the_same_bytes(answer: Answer) -> None:
    kept = (json.dumps(part, allow_nan=False) for part in (answer.result, answer.course))
    again = Answer(*map(json.loads, kept))
    assert again.page == answer.page


def test_the_answer_comes_first_and_the_evidence_is_folded(plan: Answer) -> None:
    root = parse(plan.page)
    heads = [node.text for node in root.all() if node.name in ("h1", "h2")]
    replicas = plan.result["answer"]["replicas"]
    assert heads == [f"{replicas} replicas", "How sure", "Evidence", "Ask again"]
    assert all("open" not in node.attributes for node in root.all("details"))
    sure = [node.text for node in root.first("section", class_="trust").all("h3")]
    assert sure == [
        "Gates at the operating point",
        "Chance and margin",
        "Step cost",
        "Validation",
        "Demand and answers",
        "Not modelled",
    ]


def test_the_answer_is_the_results(plan: Answer) -> None:
    root, result = parse(plan.page), plan.result
    answer, point = result["answer"], result["operating_point"]
    first = root.first("section", class_="answer")
    assert values(first.first("h1")) == [answer["replicas"]]
    assert f"{answer['gpus']} x h200" in first.first("p", class_="sentence").text
    facts = {node.first("dt").text: node for node in first.first("dl", class_="facts").all("div")}
    assert values(facts["Operating point of one replica"]) == [point["rate"]]
    low, high = point["bracket"]
    assert f"passes at {number(low)}" in facts["Operating point of one replica"].text
    assert f"at {number(high)} requests/s" in facts["Operating point of one replica"].text
    assert facts["Binding gate"].first("dd").text.startswith(result["binding"]["gates"][0])
    ruled_out = facts[f"What rules out {count(answer['one_less']['replicas'])}"].text
    missed = next(trial for trial in answer["one_less"]["trials"] if trial["verdict"] == "fail")
    assert missed["name"].replace("_", " ") in ruled_out
    assert missed["reason"] in ruled_out
    without = -(-result["demand"]["target_rate"] // point["goodput"])
    assert values(facts["Cost of 20% reserve"]) == [answer["estimate"] - without]


def test_the_sweep_is_the_results_with_a_verdict_a_rate(plan: Answer) -> None:
    rows = list(section(parse(plan.page), "Sweep").first("tbody").all("tr"))
    sweep = plan.result["sweep"]
    assert len(rows) == len(sweep)
    for row, point in zip(rows, sweep, strict=True):
        verdict = "overloaded" if point["overloaded"] else point["verdict"]
        assert row.first("span", class_="verdict").text == verdict
        expected = [
            point["rate_per_replica"],
            point["attainment"][0],
            point["goodput"][0] / point["replicas"],
        ]
        expected += [point[metric][name][0] for metric in ("ttft", "tpot") for name in ("p50", "p95", "p99")]
        assert values(row) == [*expected, point["running"], point["steps_outside"]]
        marked = "marked" in row.attributes.get("class", "")
        assert marked == (point["rate"] == plan.result["operating_point"]["rate"])


def test_gates_have_their_intervals(plan: Answer) -> None:
    gates = plan.result["operating_point"]["gates"]
    table = parse(plan.page).first("section", class_="trust").first("table")
    for row, gate in zip(cells(table), gates, strict=True):
        attained = gate["attained"]
        assert row[0] == gate["name"]
        assert row[4] == share(attained["mean"])
        assert row[5] == f"{share(attained['low'])} to {share(attained['high'])}"
        assert row[8] == gate["verdict"]


def test_fleets_and_drills_are_all_there(plan: Answer) -> None:
    rows = cells(section(parse(plan.page), "Fleets and drills"))
    trials = [(fleet["replicas"], trial) for fleet in plan.result["fleets"] for trial in fleet["trials"]]
    assert [(row[0], row[2]) for row in rows] == [(str(size), trial["load"]) for size, trial in trials]


@pytest.mark.parametrize("name", ["plan", "run", "overloaded"])
def test_every_marked_figure_is_one_of_the_result(name: str, request: pytest.FixtureRequest) -> None:
    """But for those that the page computes: sums of parts, means over bins, the cost of the reserve."""
    answer: Answer = request.getfixturevalue(name)
    root = parse(answer.page)
    known = {*figures(answer.result), *figures(answer.course)}
    computed = [
        *section(root, "Parts of TTFT").all("data"),
        *section(root, "KV cache, batch and queue over time").all("data"),
        *root.first("dl", class_="facts").all("data"),
    ]
    marked = [node for node in root.all("data") if all(node is not each for each in computed)]
    assert len(marked) > 50
    assert [node.attributes["value"] for node in marked if float(node.attributes["value"]) not in known] == []


def test_marked_figures_are_printed_as_they_are(plan: Answer) -> None:
    """Where a figure is printed bare, it is the value to 4 digits, a thousand times it in ms, or a hundred in %."""
    plain = 0
    for node in parse(plan.page).all("data"):
        text, value = node.text.replace(",", ""), float(node.attributes["value"])
        if not re.fullmatch(r"[\d.]+%?", text):
            continue
        printed = float(text.rstrip("%"))
        scales = (100,) if text.endswith("%") else (1, 1000, 2**-30)
        # 4 digits are kept; of GiB two decimals.
        assert any(printed == pytest.approx(scale * value, rel=6e-4, abs=6e-3) for scale in scales), text
        plain += 1
    assert plain > 100


def test_the_course_is_left_out_where_it_is_of_another_question(plan: Answer) -> None:
    other = {**(plan.course or {}), "fingerprint": "0" * 16}
    titles = [node.text for node in parse(page_html(plan.result, other)).all("h3")]
    assert "Latency distributions" not in titles
    assert "Sweep" in titles


def test_the_command_can_be_copied_as_it_was(plan: Answer) -> None:
    footer = parse(plan.page).first("footer")
    assert footer.first("pre").text == COMMAND
    assert not list(parse(page_html(plan.result)).first("footer").all("pre"))


def test_what_users_wrote_is_shown_and_not_run(plan: Answer) -> None:
    result = copy.deepcopy(plan.result)
    result["scenario"] = "<script>alert(1)</script> & co"
    root = parse(page_html(result, None, "capsim plan '<b>'"))
    assert root.first("p", class_="scenario").text == result["scenario"]
    assert len(list(root.all("script"))) == 1


def test_an_infeasible_question_says_which_limit_and_what_would_help(infeasible: Answer) -> None:
    root = parse(infeasible.page)
    assert root.first("h1").text == "No feasible answer"
    assert root.first("p", class_="sentence").text == "Weights need 150 GiB, 126 GiB are left."
    helps = root.first("section", class_="trust")
    assert [node.text for node in helps.all("li")] == ["tensor_parallel_size 2", "fp8 weights"]


def test_an_overloaded_run_says_so_first(overloaded: Answer) -> None:
    root = parse(overloaded.page)
    assert "overloaded" in root.first("h1").attributes["class"]
    assert "Overloaded: offered" in root.first("section", class_="answer").first("li", class_="warning").text


def test_a_run_without_an_answer_has_a_page_too(nothing_completed: Answer) -> None:
    root = parse(nothing_completed.page)
    assert nothing_completed.result["summary"]["counts"]["completed"] == 0
    assert "No request completed" in root.first("li", class_="warning").text
    assert "Latency" not in [node.text for node in root.all("h3")]


@pytest.mark.parametrize(
    "result", [with_failed_requests(), without_latency_gates()], ids=["failed", "no gates"]
)
def test_infinite_percentiles_and_missing_gates_are_drawn(result: dict[str, Any]) -> None:
    parse(page_html({**result, "configuration": stored("plan")["configuration"]}))


def of_each_priority(latencies: Json) -> list[Json]:
    classes = ({"priority": value, "preemptions": 0} for value in (0, 7))
    return [{**each, **{name: latencies[name] for name in METRICS}} for each in classes]


def test_each_priority_has_its_latency(run: Answer) -> None:
    result = copy.deepcopy(run.result)
    result["summary"]["priorities"] = of_each_priority(result["summary"]["user"])
    rows = cells(section(parse(page_html(result, run.course)), "Latency of each priority"))
    assert [row[:2] for row in rows] == [
        [f"priority {value}", name.upper()] for value in (0, 7) for name in METRICS
    ]


def test_of_a_plan_each_priority_has_its_latency_in_the_run_that_is_drawn(plan: Answer, run: Answer) -> None:
    assert plan.course is not None
    assert plan.course["priorities"] == []
    assert "Latency of each priority" not in [node.text for node in parse(plan.page).all("h3")]
    course = {**plan.course, "priorities": of_each_priority(run.result["summary"]["user"])}
    rows = cells(section(parse(page_html(plan.result, course)), "Latency of each priority"))
    assert [row[0] for row in rows] == [f"priority {value}" for value in (0, 7) for _ in METRICS]
    failed = dict.fromkeys(("mean", "p50", "p95", "p99"), None)
    course["priorities"][0]["ttft"] = {**failed, "count": 3}
    course["priorities"][0]["tpot"] = {**failed, "count": 0}
    rows = cells(section(parse(page_html(plan.result, course)), "Latency of each priority"))
    assert [row[2] for row in rows[:2]] == ["inf", "-"]


def test_kernels_of_another_gpu_are_a_warning(plan: Answer) -> None:
    result = copy.deepcopy(plan.result)
    result["confidence"]["step_cost"].update(
        source="derived", figures={"qkv": {"value": 1.0, "tag": "derived"}}
    )
    root = parse(page_html(result))
    assert root.first("h1").attributes["data-tag"] == "extrapolated"
    warnings = [node.text for node in root.first("section", class_="trust").all("li", class_="warning")]
    assert any("not measured on this GPU" in warning for warning in warnings)


def test_a_stated_quality_has_no_interval(plan: Answer) -> None:
    result = copy.deepcopy(plan.result)
    quality = {"name": "quality mmlu", "limit": 0.6, "required": None, "observed": 0.65, "attained": None}
    result["operating_point"]["gates"].append({**quality, "verdict": "pass"})
    row = cells(parse(page_html(result)).first("section", class_="trust"))[-1]
    assert row == ["quality mmlu", "0.65", "at least 0.6", "-", "-", "as stated", "-", "-", "pass"]


def test_one_replica_is_the_smallest_fleet(plan: Answer) -> None:
    result = copy.deepcopy(plan.result)
    result["answer"].update(replicas=1, gpus=1, one_less=None, estimate_differs="")
    root = parse(page_html(result))
    assert root.first("h1").text == "1 replica"
    facts = root.first("dl", class_="facts").text
    assert "one replica is the smallest fleet" in facts
    assert "serves 60 requests/s" in root.first("p", class_="sentence").text


def test_an_answer_that_is_not_the_first_estimate_says_why(plan: Answer) -> None:
    answer = plan.result["answer"]
    assert answer["replicas"] != answer["estimate"]
    said = parse(plan.page).first("section", class_="answer").first("ul", class_="statements").text
    assert said == f"Not the first estimate of {answer['estimate']}: {answer['estimate_differs']}."
