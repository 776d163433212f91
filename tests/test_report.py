"""The page about a set of runs, from the outside.

What it says, that it stands alone, and the files beside it.
"""

from __future__ import annotations

import csv
import re
import shutil
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from without_tensorflow import virel_tf
from written_runs import ANCHORS, change_settings, write_grid, write_run

from virel_tf import cli
from virel_tf.reports import page
from virel_tf.reports.styles import LOOKS, PALETTE

SVG = "{http://www.w3.org/2000/svg}"
PNG = b"\x89PNG"


@pytest.fixture(scope="module")
def report(tmp_path_factory) -> Path:
    """The report of a full grid but for virel's third seed in Walker2d.

    One run has a film and versions.
    """
    folder = tmp_path_factory.mktemp("grid")
    runs = write_grid(folder / "runs")
    (folder / "anchors.csv").write_text(ANCHORS)
    for path in (runs / "Walker2d-v4" / "virel" / "seed3").iterdir():
        path.unlink()
    (runs / "Hopper-v4" / "beta" / "seed2" / "film.gif").write_bytes(b"GIF89a")
    (runs / "Hopper-v4" / "beta" / "seed2" / "versions.json").write_text(
        '[{"from_step": 0, "versions": {"numpy": "9.8.7"}, "git_revision": "abc"}]'
    )
    result = virel_tf(
        "report", str(runs), f"--published={folder / 'anchors.csv'}", "--title=Two <variants>"
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines() == [
        "missing: Walker2d-v4 virel seed 3: absent",
        f"wrote {runs / 'report' / 'report.html'}",
    ]
    return runs / "report"


@pytest.fixture(scope="module")
def document(report) -> ElementTree.Element:
    """The page, parsed as XML: every element is closed, every attribute quoted."""
    return ElementTree.fromstring((report / "report.html").read_text())


def table(report: Path, name: str) -> list[dict[str, str]]:
    with open(report / "tables" / f"{name}.csv", newline="") as file:
        return list(csv.DictReader(file))


def numbers(row: dict[str, str], *names: str) -> list[float]:
    return [float(row[name]) for name in names]


def text_of(element: ElementTree.Element) -> str:
    return " ".join("".join(element.itertext()).split())


INTERVAL = ("95 % low", "95 % high")


def test_final_returns_by_hand(report):
    """40, 60, 80: mean 60, deviation 20, and 4.302653 * 20 / sqrt(3) = 49.682757 to each side."""
    virel, beta, *published = table(report, "scores-Hopper-v4")
    assert (virel["variant"], beta["variant"]) == ("virel", "beta")
    assert numbers(beta, "mean", *INTERVAL, "seeds", "steps", "score") == pytest.approx(
        [60, 60 - 49.682757, 60 + 49.682757, 3, 12000, 0.6], abs=1e-5
    )
    # Published: best first, 110 without and 90 with a deviation; 2.262157 * 10 / sqrt(10) =
    # 7.153569.
    assert [(row["variant"], row["source"]) for row in published] == [
        ("SAC", "else/where, v2"),
        ("SAC", "some/where, v3"),
    ]
    assert numbers(published[1], "mean", *INTERVAL) == pytest.approx(
        [90, 90 - 7.153569, 90 + 7.153569], abs=1e-5
    )
    assert published[0]["95 % low"] == ""


def test_speed_by_hand(report):
    """The area under the curves is 9.5 / 11 of the final return on average.

    Of the 11 stretches of 1000 steps one climbs to the final return and nine are at it.

    Half way to 1 is a return of 50 in Hopper: two of beta's seeds are there at step 3000, one of
    virel's is.
    """
    beta, virel = (
        {
            row["variant"]: row
            for row in table(report, "speed")
            if row["environment"] == "Hopper-v4"
        }[name]
        for name in ("beta", "virel")
    )
    assert numbers(beta, "mean return", "half-way return", "median steps") == pytest.approx(
        [60 * 9.5 / 11, 50, 3000]
    )
    assert (beta["reached by"], virel["reached by"], virel["median steps"]) == (
        "2 of 3",
        "1 of 3",
        "never",
    )


def test_aggregates_by_hand(report):
    """beta: .4 .4 .6 .6 .8 .8, of which the middle four.

    Virel has two seeds in Walker2d, so two: .2 .2 .3 .3.
    """
    rows = {row["variant"]: row for row in table(report, "iqm")}
    assert numbers(rows["beta"], "interquartile mean", "seeds", "environments") == pytest.approx(
        [0.6, 3, 2]
    )
    assert numbers(rows["virel"], "interquartile mean", "seeds") == pytest.approx([0.25, 2])
    low, high = numbers(rows["beta"], *INTERVAL)
    assert 0.4 <= low < 0.6 < high <= 0.8
    better = {
        (row["variant"], row["over"]): float(row["probability"])
        for row in table(report, "improvement")
    }
    assert better == pytest.approx({("beta", "virel"): 1.0, ("virel", "beta"): 0.0})
    profile = {
        float(row["score"]): float(row["share of runs above"])
        for row in table(report, "profiles")
        if row["variant"] == "beta"
    }
    assert (profile[0.0], profile[0.5], profile[1.0]) == pytest.approx((1, 4 / 6, 0))


def test_curves_by_hand(report):
    rows = [row for row in table(report, "eval_return-Walker2d-v4") if row["variant"] == "virel"]
    assert [int(row["step"]) for row in rows] == [1000 * count for count in range(1, 13)]
    assert {row["seeds"] for row in rows} == {"2"}
    assert numbers(rows[1], "mean", *INTERVAL) == [0, 0, 0]
    assert numbers(rows[2], "mean", *INTERVAL) == [
        50,
        40,
        60,
    ]  # 40 and 60: the band of two runs is their range


def test_the_summary_says_it_in_words(document):
    first = document.find(".//ul")
    assert [text_of(line) for line in first] == [
        "11 runs: 2 variants in 2 environments, 2 to 3 seeds each.",
        (
            "Hopper-v4, 12,000 steps: beta 60; virel 33 (the 95 % intervals of the first two"
            " overlap). Published SAC at 10,000: 90 to 110."
        ),
        (
            "Walker2d-v4, 12,000 steps: beta 120; virel 50 (the 95 % intervals of the first two"
            " overlap). Published SAC at 12,000: 200."
        ),
        "Over 2 environments, at equal steps, beta has the highest interquartile mean score, "
        + re.search(r"0\.60 \(0\.\d\d to 0\.\d\d\)", text_of(first))[0]
        + "; 0 is random, 1 published SAC.",
        "Of the full grid, 1 run is absent and 0 shorter than others; the last section names them.",
    ]


def test_the_page_needs_nothing_beside_it(report, document):
    for element in document.iter():
        assert element.tag not in ("script", "link", "iframe")
        for name, value in element.attrib.items():
            if name.rpartition("}")[2] in ("src", "href"):
                assert value.startswith(("data:", "#")), value
    text = (report / "report.html").read_text()
    assert "@import" not in text and set(re.findall(r"url\((.)", text)) <= {"#"}
    assert set(re.findall(r"https?://[^\"' <]+", text)) <= {
        "http://www.w3.org/2000/svg",
        "http://www.w3.org/1999/xlink",
    }


def test_no_two_elements_share_an_id_and_every_reference_has_its_target(report, document):
    ids = [element.get("id") for element in document.iter() if element.get("id")]
    assert len(ids) == len(set(ids))
    text = (report / "report.html").read_text()
    assert set(re.findall(r"url\(#([^)]+)\)", text)) | set(
        re.findall(r'href="#([^"]+)"', text)
    ) <= set(ids)


def test_every_figure_is_on_the_page_and_a_file(report, document):
    pictures = {path.stem: path.read_bytes() for path in (report / "figures").iterdir()}
    assert set(pictures) == {
        "curves-Hopper-v4",
        "curves-Walker2d-v4",
        "epsilon-Hopper-v4",
        "epsilon-Walker2d-v4",
        "iqm",
        "profiles",
        "improvement",
    }
    assert all(data.startswith(PNG) for data in pictures.values())
    drawn = {}
    for svg in document.iter(f"{SVG}svg"):
        title = svg.find(f"{SVG}title")
        assert (
            svg.get("role") == "img"
            and svg.get("aria-labelledby") == title.get("id")
            and title.text
        )
        assert len(svg.findall(f".//{SVG}path")) > 10
        drawn[title.get("id").removesuffix("-title")] = svg
    assert set(drawn) == set(pictures)


def test_figures_follow_the_colours_of_the_page(report):
    svgs = re.findall(r"<svg.*?</svg>", (report / "report.html").read_text(), re.DOTALL)
    used = set(re.findall(r"var\(--([0-9a-f]{6})\)", "".join(svgs)))
    assert (
        {LOOKS["beta"].colour[1:], LOOKS["virel"].colour[1:]}
        <= used
        <= {light[1:] for light in PALETTE}
    )
    assert not re.search(r"(fill|stroke): #", "".join(svgs))


def test_every_table_has_the_numbers_of_its_file(report, document):
    """All rows of a short table; of a long one, some."""
    shown = {element.get("id"): element for element in document.iter("table")}
    files = {path.stem for path in (report / "tables").iterdir()}
    assert {f"table-{name}" for name in files - {"runs"}} == set(shown)
    for name in files - {"runs"}:
        head, body = shown[f"table-{name}"].find("thead"), shown[f"table-{name}"].find("tbody")
        columns = [text_of(cell) for cell in head.iter("th")]
        rows = [[text_of(cell) for cell in row] for row in body]
        saved = [[row[column] for column in columns] for row in table(report, name)]
        step = len(saved) // len(rows)
        assert rows and (len(rows) == len(saved) or len(saved) > 60)
        for row, cells in zip(rows, saved[step - 1 :: step], strict=False):
            for displayed, exact in zip(row, cells, strict=True):
                assert displayed == (exact or "–") or float(
                    displayed.replace(",", "")
                ) == pytest.approx(float(exact), rel=5e-3, abs=5e-4), (name, row, cells)


def test_commands_versions_films_and_what_is_missing_are_told(report, document):
    runs = {(row["environment"], row["variant"], row["seed"]): row for row in table(report, "runs")}
    assert len(runs) == 11
    row = runs["Hopper-v4", "beta", "2"]
    assert row["command"] == "virel-tf --env=Hopper-v4 --variant=beta --seed=2 --total_steps=12000"
    assert row["versions"] == "numpy 9.8.7, revision abc"
    assert runs["Hopper-v4", "beta", "1"]["versions"] == "not recorded"
    text = text_of(document)
    assert all(row["command"] in text and row["folder"] in text for row in runs.values())
    assert "numpy 9.8.7" in text and "Two <variants>" in text
    (film,) = document.iter("img")
    assert film.get("src").startswith("data:image/gif;base64,")
    assert film.get("alt") == "Hopper-v4, beta, seed 2: final return 60"
    assert table(report, "missing") == [
        {"environment": "Walker2d-v4", "variant": "virel", "seeds": "3", "what": "absent"}
    ]


def test_a_large_film_is_linked(tmp_path, monkeypatch):
    monkeypatch.setattr(page, "EMBEDDED_BYTES", 3)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "film.mp4").write_bytes(b"film")
    assert "href='../run/film.mp4'" in page.film_html(
        tmp_path / "run" / "film.mp4", "it", tmp_path / "report"
    )


def test_one_run_is_enough_for_a_report(tmp_path):
    write_run(tmp_path, [1.0], "--env=Own/Thing-v0", "--variant=sac")
    assert cli.main(["report", str(tmp_path), f"--out={tmp_path / 'page'}"]) == 0
    text = text_of(ElementTree.fromstring((tmp_path / "page" / "report.html").read_text()))
    assert (
        "Not enough runs" in text
        and "for want of a published return" in text
        and "the grid is full" in text
    )


def test_a_second_report_takes_the_place_of_the_first(tmp_path):
    write_run(tmp_path / "a", [1.0], "--env=Hopper-v4")
    write_run(tmp_path / "b", [1.0], "--env=Walker2d-v4", "--seed=2")
    assert cli.main(["report", str(tmp_path)]) == 0
    assert len(table(tmp_path / "report", "missing")) == 2
    shutil.rmtree(tmp_path / "b")
    write_run(tmp_path / "a", [7.0], "--env=Hopper-v4")
    for own in ("tables/note.txt", "tables/mine.csv", "figures/mine.png"):
        (tmp_path / "report" / own).touch()
    assert cli.main(["report", str(tmp_path)]) == 0
    assert float(table(tmp_path / "report", "scores-Hopper-v4")[0]["mean"]) == 7.0
    assert {
        str(path.relative_to(tmp_path / "report")) for path in (tmp_path / "report").rglob("*.*")
    } == {
        "report.html",
        "figures/curves-Hopper-v4.png",
        "tables/note.txt",
        "tables/mine.csv",
        "figures/mine.png",
        *(
            f"tables/{name}.csv"
            for name in ("eval_return-Hopper-v4", "missing", "runs", "scores-Hopper-v4", "speed")
        ),
    }
    assert (
        tmp_path / "report/tables/missing.csv"
    ).read_text() == "environment,variant,seeds,what\n"


@pytest.mark.parametrize(
    "figure, start",
    [
        ("curves", b"\x89PNG"),
        ("iqm", b"<?xml"),
        ("profiles", b"%PDF"),
        ("improvement", b"\x89PNG"),
        ("epsilon", b"\x89PNG"),
    ],
)
def test_plot_writes_one_figure(tmp_path, report, capsys, figure, start):
    out = tmp_path / "new" / ("figure" + {b"<?xml": ".svg", b"%PDF": ".pdf"}.get(start, ".PNG"))
    anchors = report.parent.parent / "anchors.csv"
    assert (
        cli.main(
            [
                "plot",
                str(report.parent),
                f"--figure={figure}",
                f"--out={out}",
                f"--published={anchors}",
            ]
        )
        == 0
    )
    assert capsys.readouterr().out == f"missing: Walker2d-v4 virel seed 3: absent\nwrote {out}\n"
    assert out.read_bytes().startswith(start)


def test_plot_of_one_environment_names_what_is_missing_there(tmp_path, report, capsys):
    assert (
        cli.main(
            ["plot", str(report.parent), "--env=Hopper-v4", f"--out={tmp_path / 'figure.png'}"]
        )
        == 0
    )
    assert capsys.readouterr().out == f"wrote {tmp_path / 'figure.png'}\n"


def test_mistakes_are_told_in_one_line(tmp_path, report, capsys):
    runs = str(report.parent)
    (tmp_path / "bad.csv").write_text("env,steps\nHopper,1\n")
    (tmp_path / "wide.csv").write_text("env,steps\n" + 200_000 * "x")
    (tmp_path / "zero.csv").write_text(ANCHORS.replace("10000,SAC", "0,SAC"))
    for arguments, parts in (
        (["report"], ["RUNS", "folders with runs", "virel-tf report runs"]),
        (["report", "nowhere"], ["'nowhere'", "no such folder"]),
        (["report", str(tmp_path)], [str(tmp_path), "no run in it"]),
        (["report", runs, "--bootstrap_samples=1"], ["--bootstrap_samples", "at least 100"]),
        (
            ["report", runs, "--published=nowhere.csv"],
            ["--published", "nowhere.csv", "No such file"],
        ),
        (
            ["report", runs, f"--published={tmp_path / 'bad.csv'}"],
            ["--published", "bad.csv", "env, steps, algorithm"],
        ),
        (
            ["report", runs, f"--published={tmp_path / 'wide.csv'}"],
            ["--published", "wide.csv", "field limit"],
        ),
        (
            ["report", runs, f"--published={tmp_path / 'zero.csv'}"],
            ["--published", "zero.csv", "SAC after 0 steps"],
        ),
        (["plot", runs, "--out=figure.jpg"], ["--out", "'figure.jpg'", ".png, .svg, .pdf"]),
        (
            ["plot", runs, "--out=figures/.png"],
            ["--out", "'figures/.png'", "ends in .png"],
        ),
        (["plot", runs, "--figure=curve"], ["--figure", "did you mean curves?"]),
        (
            ["plot", runs, "--env=Hoper-v4"],
            ["--env", "Hopper-v4, Walker2d-v4", "did you mean Hopper-v4?"],
        ),
        (
            ["plot", f"{runs}/Hopper-v4/virel", "--figure=epsilon"],
            ["--figure: epsilon", "follows epsilon"],
        ),
        (["plot", f"{runs}/Hopper-v4/virel/seed1", "--figure=iqm"], ["--figure: iqm", "two seeds"]),
        (
            ["plot", f"{runs}/Hopper-v4/virel", "--figure=improvement"],
            ["improvement", "two variants"],
        ),
    ):
        assert cli.main(arguments) == 2
        message = capsys.readouterr().err
        assert message.count("\n") == 1 and [part for part in parts if part not in message] == [], (
            message
        )


def test_a_run_without_epsilon_is_left_out_of_its_figure_alone(tmp_path, capsys):
    flags = ("--env=Hopper-v4", "--variant=beta")
    write_run(tmp_path / "b", [1.0, 2.0], *flags, "--seed=2", epsilon=["", ""])
    plot = ["plot", str(tmp_path), "--figure=epsilon", f"--out={tmp_path / 'figure.png'}"]
    assert cli.main(plot) == 2 and "no run here has logged epsilon yet" in capsys.readouterr().err
    write_run(tmp_path / "a", [1.0, 2.0], *flags, epsilon=[4.0, 3.0])
    assert cli.main(plot) == 0 and cli.main(["report", str(tmp_path)]) == 0
    assert [
        numbers(row, "step", "seeds", "mean")
        for row in table(tmp_path / "report", "epsilon-Hopper-v4")
    ] == [[1000, 1, 4], [2000, 1, 3]]


def test_an_unknown_temperature_has_no_epsilon_figure(tmp_path, capsys):
    write_run(tmp_path, [1.0], "--env=Hopper-v4")
    change_settings(tmp_path, variant="mine")
    assert (
        cli.main(["plot", str(tmp_path), "--figure=epsilon"]) == 2
        and "follows epsilon" in capsys.readouterr().err
    )
