"""`virel-tf report`: a page about a set of runs, and its figures and tables as files beside it."""

from __future__ import annotations

import csv
import io
import math
from pathlib import Path

from virel_tf.experiments.options import ReportOptions
from virel_tf.files import atomic_write, ensure_writable
from virel_tf.reports import analysis, page
from virel_tf.reports.analysis import Aggregate, Table
from virel_tf.reports.figures import (
    Picture,
    aggregate_pictures,
    curves_picture,
    epsilon_picture,
    file_of,
    temperature_curves,
)
from virel_tf.reports.headline import headline
from virel_tf.reports.published import Anchor, read_anchors
from virel_tf.reports.runs import Experiment, Run, read_experiment

FILMS = (".mp4", ".gif")
TITLE, SAMPLES = (
    ReportOptions.title,
    ReportOptions.bootstrap_samples,
)  # what the flags have without being given


def write_report(
    folders: list[Path],
    out: Path,
    title: str = TITLE,
    samples: int = SAMPLES,
    anchors_file: str = "",
    label: str = "",
) -> tuple[Path, list[str]]:
    """Writes report.html, figures/*.png and tables/*.csv.

    Returns the page's path and the missing cells in words.
    """
    experiment = read_experiment(folders, label)
    anchors = read_anchors(anchors_file)
    report = Report(experiment, anchors, analysis.aggregate(experiment, anchors, samples), out)
    body = report.body(samples)
    for folder in (out, out / "figures", out / "tables"):
        ensure_writable(folder)
    write_all(
        out / "figures",
        ".png",
        {picture.name: file_of(picture.figure, "png") for picture in report.pictures},
    )
    write_all(out / "tables", ".csv", {table.name: csv_of(table) for table in report.tables})
    delete_left_over(out, report)
    atomic_write(out / "report.html", page.page(title, body).encode())
    return out / "report.html", [cell.words for cell in experiment.missing]


def write_all(folder: Path, suffix: str, files: dict[str, bytes]) -> None:
    """Writes the files, each below its name."""
    for name, data in files.items():
        atomic_write(folder / f"{name}{suffix}", data)


def delete_left_over(out: Path, report: Report) -> None:
    """Deletes what the report that stands there has and this one has not.

    Other files are somebody's own.
    """
    if not (out / "report.html").is_file():
        return
    earlier = (out / "report.html").read_text(encoding="utf-8", errors="replace")
    for pattern, known_by, now in (
        ("figures/*.png", page.figure_id, report.pictures),
        ("tables/*.csv", page.table_id, report.tables),
    ):
        for path in out.glob(pattern):
            if (
                path.stem not in {part.name for part in now}
                and f"id='{known_by(path.stem)}'" in earlier
            ):
                path.unlink()


class Report:
    """The parts of the page; what they show is noted, to be written as files too."""

    def __init__(
        self, experiment: Experiment, anchors: list[Anchor], result: Aggregate | None, out: Path
    ) -> None:
        self.experiment, self.anchors, self.result, self.out = experiment, anchors, result, out
        self.pictures: list[Picture] = []
        self.tables: list[Table] = []

    def body(self, samples: int) -> list[str]:
        """The page from top to bottom."""
        parts = [page.bullets(headline(self.experiment, self.result, self.anchors))]
        parts += [self.environment(env) for env in self.experiment.envs]
        parts += self.aggregates(samples)
        parts += [
            page.heading("How fast they learned"),
            page.paragraph(
                "Mean return while learning is the area under the learning curve divided by its"
                " length. Half-way is the return in the middle between random actions and published"
                " SAC: the steps to the first evaluation that reached it, in the middle of the"
                " seeds; never, where half of them did not.",
                note=True,
            ),
            self.table(analysis.speed_table(self.experiment, self.anchors)),
        ]
        parts += self.temperatures()
        parts += self.films()
        parts += [
            page.heading("The runs"),
            page.paragraph(
                "How many steps each run has, and, unfolded, the command that makes it again and"
                " the versions it was made with. Every table of this page is a CSV file in tables/,"
                " every figure a PNG in figures/.",
                note=True,
            ),
            self.runs(),
            page.heading("Missing or shorter"),
        ]
        missing = self.table(analysis.missing_table(self.experiment))  # a file in any case
        return [
            *parts,
            missing if self.experiment.missing else page.paragraph("Nothing: the grid is full."),
        ]

    def environment(self, env: str) -> str:
        """Learning curves beside final returns."""
        curves = analysis.curves_of(self.experiment.of(env), "eval_return")
        figure = self.figure(
            curves_picture(self.experiment, [env]),
            [analysis.curves_table(curves, "eval_return")],
            "Mean over n seeds, with a 95 % bootstrap band where there are two or more. Of 60 "
            "evaluations and more, each point is the mean of the last ten, so that a line ends at "
            "its final return.",
        )
        scores = self.table(analysis.scores_table(self.experiment, env, self.anchors))
        scale = analysis.scale_in(self.experiment, env, self.anchors)
        note = (
            "There is no score, for want of a published return of SAC."
            if scale is None
            else (
                f"Score: 0 is the return of random actions, {scale.zero:,.1f}; 1 that of published"
                f" SAC after {scale.steps:,} steps, {scale.one:,.0f}."
            )
        )
        return page.heading(env) + page.side_by_side(
            [
                figure,
                scores
                + page.paragraph(
                    "Final return: mean of a run's last ten evaluations. Intervals are Student's t"
                    f" over seeds; one seed has none. {note}",
                    note=True,
                ),
            ],
            layout="pair",
        )

    def aggregates(self, samples: int) -> list[str]:
        """Interquartile means, profiles and probabilities of improvement, or why there are none."""
        parts = [page.heading("All environments together")]
        if self.result is None:
            return [
                *parts,
                page.paragraph(
                    "Not enough runs: this takes two seeds of a variant, in an environment with "
                    "a published return of SAC."
                ),
            ]
        result = self.result
        where = ", ".join(f"{env} ({steps:,} steps)" for env, steps in result.steps.items())
        seeds = sorted({len(scores) for scores in result.scores.values()})
        parts.append(
            page.paragraph(
                f"Compared at equal steps: {where}; {' or '.join(map(str, seeds))} seeds of each"
                f" variant. Intervals are 95 % percentiles of {samples:,} stratified bootstrap"
                " resamples; of few seeds they are too narrow rather than too wide."
            )
        )
        left_out = [env for env in self.experiment.envs if env not in result.envs]
        left_out += [label for label in self.experiment.labels if label not in result.scores]
        left_out += result.late
        if left_out:
            parts.append(
                page.paragraph(
                    "Left out, for want of two seeds everywhere, of a published return, or of an "
                    f"evaluation up to these steps: {', '.join(left_out)}."
                )
            )
        captions = {
            "iqm": "Mean of the middle half of all scores.",
            "profiles": "The higher and the further right a line, the better.",
            "improvement": (
                "How often a run of the variant with the highest interquartile mean beats one of "
                "the other; at 0.5 neither is better."
            ),
        }
        pictures = aggregate_pictures(self.experiment, result)
        tables = {table.name: table for table in analysis.aggregate_tables(result)}
        return [
            *parts,
            page.side_by_side(
                [
                    self.figure(picture, [tables[kind]], captions[kind])
                    for kind, picture in pictures.items()
                ]
            ),
        ]

    def temperatures(self) -> list[str]:
        """Epsilon, temperature and entropy over time."""
        parts = []
        for env in self.experiment.envs:
            picture = epsilon_picture(self.experiment, [env])
            if picture:
                tables = [
                    analysis.curves_table(curves, column)
                    for column, curves in temperature_curves(self.experiment, env).items()
                ]
                parts.append(
                    self.figure(picture, tables, "Means over the updates between two evaluations.")
                )
        return (
            [
                page.heading("Temperature"),
                page.paragraph(
                    "Of the variants whose temperature follows the residual error epsilon.",
                    note=True,
                ),
                page.side_by_side(parts),
            ]
            if parts
            else []
        )

    def films(self) -> list[str]:
        """In each environment, the film of the best run that has one."""
        parts = []
        for env in self.experiment.envs:
            runs = [
                (score, run, film)
                for group in self.experiment.of(env)
                for score, run in zip(group.final_scores(), group.runs, strict=True)
                if (film := film_of(run))
            ]
            if runs:
                score, run, film = max(runs, key=lambda found: found[0])
                parts.append(
                    page.film_html(
                        film,
                        f"{env}, {run.variant}, seed {run.seed}: final return {score:,.0f}",
                        self.out,
                    )
                )
        return [page.heading("Films"), page.side_by_side(parts)] if parts else []

    def runs(self) -> str:
        """Each run's folder, command and versions, one under the other: too wide for a table."""
        table = analysis.runs_table(self.experiment)
        self.tables.append(table)
        return page.folded(
            [
                (
                    f"{env} {label} seed {seed}: {steps:,}",
                    [folder, f"Made with: {versions}"],
                    command,
                )
                for env, label, seed, steps, folder, command, versions in table.rows
            ]
        )

    def figure(self, picture: Picture, tables: list[Table], caption: str) -> str:
        """A figure, which will be a file too, as will its numbers."""
        self.pictures.append(picture)
        self.tables += tables
        return page.figure_html(picture, tables, caption)

    def table(self, table: Table) -> str:
        """A table, which will be a file too."""
        self.tables.append(table)
        return page.table_html(table)


def film_of(run: Run) -> Path | None:
    """The newest film in a run's folder."""
    films = [path for path in run.folder.rglob("*") if path.suffix.lower() in FILMS]
    return max(films, key=lambda path: (path.stat().st_mtime, path), default=None)


def csv_of(table: Table) -> bytes:
    """With every digit; what is unknown is empty."""
    text = io.StringIO()
    unknown = [
        [None if isinstance(cell, float) and math.isnan(cell) else cell for cell in row]
        for row in table.rows
    ]
    csv.writer(text, lineterminator="\n").writerows([table.columns, *unknown])
    return text.getvalue().encode()
