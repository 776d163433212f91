"""What is compared with what, published returns, and how variants look."""

from __future__ import annotations

import numpy as np
import pytest
from written_runs import ANCHORS, write_run

from virel_tf.reports.analysis import (
    aggregate,
    median_of_times,
    scores_table,
    speed_table,
    widest_grid,
)
from virel_tf.reports.headline import headline
from virel_tf.reports.published import Anchor, comparable_anchors, read_anchors, scale_of
from virel_tf.reports.runs import read_experiment
from virel_tf.reports.styles import DARK_PAGE, LIGHT_PAGE, LOOKS, PALETTE, SPARE, looks_of


def test_aggregates_compare_at_equal_steps(tmp_path):
    """The longer run's later evaluations do not count."""
    (tmp_path / "anchors.csv").write_text(ANCHORS)
    for seed in (1, 2):
        write_run(
            tmp_path / f"b{seed}", [50.0], "--env=Hopper-v4", f"--seed={seed}", "--variant=beta"
        )
        write_run(
            tmp_path / f"v{seed}",
            [10.0, 90.0],
            "--env=Hopper-v4",
            f"--seed={seed}",
            "--variant=virel",
        )
    result = aggregate(
        read_experiment([tmp_path]), read_anchors(str(tmp_path / "anchors.csv")), 100
    )
    assert result.steps == {"Hopper-v4": 1000}
    values = {label: estimate.value for label, estimate in result.iqm.items()}
    assert values == pytest.approx({"virel": 0.1, "beta": 0.5})


def test_aggregates_leave_out_what_was_first_evaluated_later(tmp_path):
    """virel ends at step 1000.

    Beta's third seed has no evaluation by then, and none of sac's has.
    """
    (tmp_path / "anchors.csv").write_text(ANCHORS)
    for seed in (1, 2, 3):
        flags = ("--env=Hopper-v4", f"--seed={seed}")
        write_run(tmp_path / f"v{seed}", [10.0], *flags, "--variant=virel")
        write_run(
            tmp_path / f"b{seed}", ["nan" if seed == 3 else 50.0, 90.0], *flags, "--variant=beta"
        )
        write_run(tmp_path / f"s{seed}", [70.0], *flags, "--variant=sac", steps=[2000])
    result = aggregate(
        read_experiment([tmp_path]), read_anchors(str(tmp_path / "anchors.csv")), 100
    )
    assert result.steps == {"Hopper-v4": 1000}
    assert result.late == ["Hopper-v4 beta seed 3"]
    assert {label: scores.ravel().tolist() for label, scores in result.scores.items()} == {
        "virel": pytest.approx([0.1] * 3),
        "beta": pytest.approx([0.5] * 2),
    }


@pytest.fixture
def unequal(tmp_path):
    """sac and virel have half the steps of beta, which is behind there and ahead at its end.

    Mpo begins late.
    """
    (tmp_path / "anchors.csv").write_text(ANCHORS)
    for seed in (1, 2):
        flags = ("--env=Hopper-v4", f"--seed={seed}")
        write_run(tmp_path / f"v{seed}", [40.0 + seed], *flags, "--variant=virel", steps=[60_000])
        write_run(tmp_path / f"s{seed}", [20.0 + seed / 9], *flags, "--variant=sac", steps=[60_000])
        write_run(
            tmp_path / f"b{seed}",
            [10.0 + seed, 190.0],
            *flags,
            "--variant=beta",
            steps=[60_000, 120_000],
        )
        write_run(tmp_path / f"m{seed}", [70.0], *flags, "--variant=mpo", steps=[120_000])
    return read_experiment([tmp_path]), read_anchors(str(tmp_path / "anchors.csv"))


def test_the_first_lines_rank_at_equal_steps(unequal):
    experiment, anchors = unequal
    assert (
        headline(experiment, None, anchors)[1]
        == "Hopper-v4, 60,000 steps (the most that all have): virel 42; sac 20; beta 12 (the first"
        " is ahead of the second: their 95 % intervals do not meet); mpo had no evaluation by"
        " then."
    )


def test_an_environment_has_one_scale(unequal):
    """120,000 steps are nearer to the 900,000 of an SAC of 5000 than to the 10,000 of 100.

    60,000 are not.
    """
    experiment, anchors = unequal
    rows = {row[0]: row for row in scores_table(experiment, "Hopper-v4", anchors).rows}
    assert rows["virel"][6] == pytest.approx(41.5 / 5000)
    assert {row[6] for row in speed_table(experiment, anchors).rows} == {2500}
    result = aggregate(experiment, anchors, 10)  # compares at 60,000, on the same scale
    assert result.scores["virel"][:, 0] == pytest.approx([41 / 5000, 42 / 5000])


def test_a_scale_has_two_ends():
    anchors = [
        Anchor("Hopper", 0, "random", 20.0, 1.0, 100, "v4", "here"),
        Anchor("Hopper", 1000, "SAC", 20.0, 1.0, 10, "v4", "there"),
    ]
    assert scale_of(anchors, "Hopper-v4", 1000) is None


def test_the_widest_grid_is_the_one_with_most_cells():
    assert widest_grid({"a": ["x", "y"], "b": ["x", "y", "z"], "c": ["x"]}) == (
        ["x", "y"],
        ["a", "b"],
    )
    assert widest_grid({"a": ["x"], "b": ["x"], "c": ["y"]}) == (["x"], ["a", "b"])
    assert widest_grid({"a": []}) == ([], [])


@pytest.mark.parametrize(
    "times, median",
    [([1.0, 3.0, float("inf")], 3.0), ([1.0, float("inf")], "never"), ([2.0, 4.0], 3.0)],
)
def test_the_median_of_times_where_some_never_came(times, median):
    assert median_of_times(np.array(times)) == median


def test_the_package_s_anchors():
    anchors = read_anchors()
    scale = scale_of(anchors, "HalfCheetah-v4", 100_000)
    assert scale == pytest.approx((-282.5, (7622 + 6515 + 5794) / 3, 100_000))
    # nearer than 300,000, by ratio
    assert scale_of(anchors, "HalfCheetah-v4", 600_000).steps == 1_000_000
    assert scale_of(anchors, "Pendulum-v1", 1000) is None
    found = comparable_anchors(anchors, "Ant-v4", 300_000)
    assert {anchor.version for anchor in found} == {"v4"} and {
        anchor.algorithm for anchor in found
    } == {"CrossQ", "SimbaV2", "DR.Q"}
    assert len(comparable_anchors(anchors, "Hopper-v4", 200_000)) == 8
    assert comparable_anchors(anchors, "Hopper-v4", 100_000) == []
    assert {anchor.steps for anchor in comparable_anchors(anchors, "Walker2d-v4", 350_000)} == {
        300_000
    }  # not 500,000
    assert all(anchor.std >= 0 or anchor.std != anchor.std for anchor in anchors)


def luminance(colour: str) -> float:
    channels = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [
        value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4
        for value in channels
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_colours_stand_out_on_light_and_dark_pages():
    """WCAG asks for a contrast of 4.5 of text; lines have it too."""
    for look in (*LOOKS.values(), *SPARE):
        for colour, page in ((look.colour, LIGHT_PAGE), (PALETTE[look.colour], DARK_PAGE)):
            light, dark = sorted((luminance(colour), luminance(page)), reverse=True)
            assert (light + 0.05) / (dark + 0.05) >= 4.5, (look, page)


def test_variants_keep_their_looks_and_differ_without_colour():
    looks = looks_of(["virel", "virel, m_step=tdc", "beta", "mine"])
    assert looks["virel"] == LOOKS["virel"] and looks["beta"] == LOOKS["beta"]
    assert len(set(looks.values())) == 4
    assert len({(str(look.line), look.marker) for look in LOOKS.values()}) == len(LOOKS)
    assert looks_of(["virel, m_step=tdc"]) == {"virel, m_step=tdc": LOOKS["virel"]}


def test_looks_do_not_repeat():
    """The first 25 differ in colour and line alone, whose markers come at the end of a curve."""
    looks = list(looks_of([f"mine, tau=0.{number:03}" for number in range(100)]).values())
    assert looks[: len(SPARE)] == list(SPARE)
    assert len({str(look) for look in looks}) == 100
    assert len({(look.colour, str(look.line)) for look in looks[:25]}) == 25
