"""The command line as a user types it.

Each test starts the program, except where a command is put in place.
"""

from __future__ import annotations

import json
import subprocess
import sys
import types

import pytest
from without_tensorflow import virel_tf

from virel_tf import __version__, cli
from virel_tf.algorithms import RECIPES
from virel_tf.config import Config
from virel_tf.errors import ConfigError, RunError
from virel_tf.experiments.options import ReportOptions
from virel_tf.options import flags_of


def complaint(*arguments: str) -> str:
    """What the program complains of; the form of every complaint is checked here."""
    result = virel_tf(*arguments)
    assert result.returncode == 2, result
    assert result.stdout == ""
    assert result.stderr.startswith("virel-tf: ") and result.stderr.count("\n") == 1, result.stderr
    return result.stderr


@pytest.mark.parametrize(
    "arguments, parts",
    [
        (["--sead=3"], ["--sead", "no such flag", "did you mean --seed?"]),
        (["--total-steps=10"], ["--total-steps", "did you mean --total_steps?"]),
        (["--steps=10"], ["--steps", "did you mean --total_steps?"]),
        (["--learning_rate=1"], ["--learning_rate", "did you mean --value_learning_rate?"]),
        (["--noodiagnostics"], ["--noodiagnostics", "did you mean --nodiagnostics?"]),
        (["--qqqq"], ["--qqqq", "--help"]),
        (["--helpful"], ["--helpful", "did you mean --help"]),
        (["--xla=true"], ["--xla", "no such flag"]),
        (["--batch_size=many"], ["--batch_size", "'many'", "a whole number of at least 1"]),
        (["--batch_size=1.5"], ["--batch_size", "'1.5'", "a whole number of at least 1"]),
        (["--batch_size=0"], ["--batch_size", "a whole number of at least 1"]),
        (["--batch_size=1e400"], ["--batch_size", "a whole number"]),
        (["--tau=fast"], ["--tau", "'fast'", "a number above 0 and at most 1"]),
        (["--tau=2"], ["--tau", "2.0", "a number above 0 and at most 1"]),
        (["--tau=nan"], ["--tau", "nan", "a number above 0 and at most 1"]),
        (["--variant=bta"], ["--variant", "'bta'", "virel, beta", "did you mean beta?"]),
        (["--diagnostics=maybe"], ["--diagnostics", "'maybe'", "true or false"]),
        (["--nodiagnostics=true"], ["--nodiagnostics"]),
        (["--preset=papr"], ["--preset", "'papr'", "paper, tianshou, none", "did you mean paper?"]),
        (["--env="], ["--env", "gymnasium"]),
        (["--batch_size"], ["--batch_size", "has no value", "a whole number"]),
        (["--env", "--seed=1"], ["--env", "has no value"]),
        (["--num_envs=3"], ["--num_envs", "3", "steps_per_iteration"]),
        (
            ["trian"],
            ["'trian'", "train, evaluate, variants, theory, benchmark", "did you mean train?"],
        ),
        (["train", "more"], ["'more'", "--flag=value"]),
        (["--diagnostics", "false"], ["'false'", "--flag=value"]),
        (["--seed=1", "evaluate"], ["'evaluate'", "command comes first"]),
        (["--flagfile=no/such/file"], ["--flagfile", "no/such/file", "No such file"]),
        (["--flagfile"], ["--flagfile"]),
        (["evaluate"], ["--run_dir", "policy=PATH"]),
        (
            ["evaluate", "--run_dir=x", "--policy=bst"],
            ["--policy", "best, last", "did you mean best?"],
        ),
        (["evaluate", "--run_dir=x", "--episodes=0"], ["--episodes", "at least 1"]),
        (["evaluate", "--env=Hopper-v4"], ["--env", "no such flag"]),
        (
            ["evaluate", "--run_dir=x", "--video=film.avi"],
            ["--video", "'film.avi'", ".mp4 or .gif"],
        ),
        (["export"], ["--run_dir"]),
        (["latency"], ["--run_dir", "latency needs it"]),
        (["latency", "--run_dir=x", "--seconds=0"], ["--seconds", "above 0"]),
        (
            ["export", "--run_dir=x", "--policy=bst"],
            ["--policy", "best, last", "did you mean best?"],
        ),
        (
            ["export", "--run_dir=x", "--format=onx"],
            ["--format", "saved_model, litert, onnx", "did you mean onnx?"],
        ),
        (["benchmark", "--seconds=0"], ["--seconds", "above 0"]),
        (["train", "--seconds=1"], ["--seconds", "no such flag"]),
    ],
)
def test_a_mistake_is_told_in_one_line(arguments, parts):
    message = complaint(*arguments)
    assert [part for part in parts if part not in message] == [], message


def test_a_path_that_the_system_refuses_is_told_in_one_line(capsys):
    assert cli.main(["export", f"--run_dir={300 * 'x'}"]) == 1
    told = capsys.readouterr().err
    assert told.startswith("virel-tf: File name too long: xxx") and len(told.splitlines()) == 1


def test_a_flagfile_that_is_a_folder_or_not_text_is_told_in_one_line(tmp_path):
    assert str(tmp_path) in complaint(f"--flagfile={tmp_path}")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    assert "--flagfile" in complaint(f"--flagfile={tmp_path / 'binary'}")


def test_a_mistake_inside_a_flagfile_names_the_flag(tmp_path):
    (tmp_path / "some.flags").write_text("# comment\n--batch_sise=3\n")
    assert "did you mean --batch_size?" in complaint(f"--flagfile={tmp_path / 'some.flags'}")


@pytest.mark.parametrize(
    "arguments", [["--helpfull"], ["train", "--helpfull"], ["--seed=1", "--helpfull"]]
)
def test_helpfull_shows_every_flag_with_its_default(arguments):
    result = virel_tf(*arguments)
    assert (result.returncode, result.stderr) == (0, "")
    for part in (
        "Usage:",
        "evaluate",
        "benchmark",
        "Example:",
        "--env=InvertedPendulum-v4",
        "--tau=0.005",
        "--diagnostics=false",
        "--total_steps=1_000_000",
        "[virel|beta|virel1",
        "temperature of beta:",
    ):
        assert part in result.stdout
    assert shown_flags(result.stdout) == {field.name for field in flags_of(Config)}
    assert max(map(len, result.stdout.splitlines())) <= 100
    assert "only_check_args" not in result.stdout and "undefok" not in result.stdout


def shown_flags(page: str) -> set[str]:
    """The names of the flags that a help page lists."""
    return {line[4:].partition("=")[0] for line in page.splitlines() if line.startswith("  --")}


@pytest.mark.parametrize(
    "arguments", [["--help"], ["-h"], ["help"], ["train", "--help"], ["--seed=1", "--help"]]
)
def test_help_shows_the_flags_that_matter_first(arguments):
    result = virel_tf(*arguments)
    assert (result.returncode, result.stderr) == (0, "")
    shown = shown_flags(result.stdout)
    assert len(shown) == 15 and {"env", "variant", "preset", "total_steps", "run_dir"} <= shown
    assert "--helpfull" in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 100


@pytest.mark.parametrize(
    "command, shown, hidden",
    [
        ("benchmark", {"seconds", "env"}, {"tau"}),
        ("experiment", {"envs", "sweep", "total_steps"}, {"tau", "env"}),
        ("export", {"run_dir", "format"}, {"tau"}),
    ],
)
def test_help_of_a_command_shows_all_of_its_own_flags(command, shown, hidden):
    names = shown_flags(virel_tf(command, "--help").stdout)
    assert shown <= names and not hidden & names


def test_a_switch_is_explained_where_there_is_one():
    assert "--nodiagnostics means" in virel_tf("--helpfull").stdout
    assert "means" not in virel_tf("--help").stdout


def test_variants_shows_every_recipe_without_tensorflow():
    result = virel_tf("variants")
    assert (result.returncode, result.stderr) == (0, "")
    for name, recipe in RECIPES.items():
        line = next(line for line in result.stdout.splitlines() if line.split()[:1] == [name])
        assert all(part in line for part in recipe.row().values())
        assert recipe.about in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 120


def test_help_of_a_command_without_flags_lists_none():
    result = virel_tf("variants", "--help")
    assert result.returncode == 0 and "Flags of" not in result.stdout


@pytest.mark.parametrize(
    "arguments", [["evaluate", "--help"], ["evaluate", "-h"], ["help", "evaluate"]]
)
def test_help_of_a_command_shows_its_own_flags(arguments):
    result = virel_tf(*arguments)
    assert (result.returncode, result.stderr) == (0, "")
    for part in (
        "--run_dir=",
        "--policy=best",
        "--episodes=10",
        "--seed=1",
        "virel-tf evaluate --run_dir=",
    ):
        assert part in result.stdout
    assert "--tau" not in result.stdout


def test_help_of_a_command_with_words_names_them():
    result = virel_tf("help", "report")
    assert (
        "Usage: virel-tf report RUNS... [--flag=value ...]" in result.stdout
        and "RUNS are folders" in result.stdout
    )
    assert "--bootstrap_samples=2_000" in result.stdout and "--runs" not in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 100


def test_words_and_flags_may_mix():
    given = cli.read_flags(flags_of(ReportOptions), ["here", "--out=page", "there"])
    assert given == {"runs": ("here", "there"), "out": "page"}


def test_version():
    result = virel_tf("--version")
    assert (result.returncode, result.stdout) == (0, f"virel-tf {__version__}\n")


def test_a_reader_that_goes_away_is_no_error():
    program = subprocess.Popen(
        [sys.executable, "-m", "virel_tf", "--help"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    program.stdout.close()
    assert program.stderr.read() == b""
    program.stderr.close()
    assert program.wait() == 0


def test_help_and_mistakes_do_not_import_tensorflow():
    check = (
        "import sys; from virel_tf.cli import main; main(['--help']); main(['--tau=x']);"
        " main(['evaluate']); main(['report']);print('imported:', *{'tensorflow', 'gymnasium',"
        " 'numpy', 'matplotlib'} & set(sys.modules))"
    )
    result = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True)
    assert result.stdout.splitlines()[-1] == "imported:"


@pytest.mark.slow
def test_tensorflow_is_imported_without_noise():
    quiet = (
        "import os, subprocess, sys; from virel_tf.cli.program import import_tensorflow_quietly; "
        "import_tensorflow_quietly(); import tensorflow as tf; tf.zeros([1]) + 1; "
        "print('stderr is back', file=sys.stderr)"
    )
    parent = (  # a child is as quiet as its parent
        f"{quiet}; subprocess.run([sys.executable, '-c', {quiet!r}])"
    )
    result = subprocess.run([sys.executable, "-c", parent], capture_output=True, text=True)
    assert result.stderr == "stderr is back\nstderr is back\n"


def test_no_flags_are_the_defaults():
    assert cli.parse_config([]) == Config()


def test_values_of_every_kind():
    config = cli.parse_config(
        [
            "--env=Ant-v5",
            "--variant",
            "virel",
            "--tau=1e-2",
            "--alpha=2",
            "--diagnostics",
            "--nonormalise_observations",
            "--normalisation=layer",
        ]
    )
    assert config == Config(
        env="Ant-v5",
        variant="virel",
        tau=0.01,
        alpha=2.0,
        diagnostics=True,
        normalisation="layer",
    )


@pytest.mark.parametrize("text", ["100000", "100_000", "1e5", "1E5", "100000.0"])
def test_whole_numbers_in_other_notations(text):
    steps = cli.parse_config([f"--total_steps={text}"]).total_steps
    assert steps == 100_000 and isinstance(steps, int)


def test_a_flag_beats_the_preset_even_with_the_default_s_value():
    paper = ["--env=Hopper-v4", "--preset=paper"]
    assert cli.parse_config(paper).reward_scale == 5.0
    assert cli.parse_config([*paper, "--reward_scale=2"]).reward_scale == 2.0
    assert cli.parse_config([*paper, "--reward_scale=1"]).reward_scale == 1.0
    assert cli.parse_config([]).batch_size == 256
    assert cli.parse_config(["--batch_size=128"]).batch_size == 128


def test_a_flagfile_beats_the_preset_and_later_flags_beat_the_flagfile(tmp_path):
    inner, outer = tmp_path / "inner.flags", tmp_path / "outer.flags"
    inner.write_text("--reward_scale=7\n--seed=3\n")
    outer.write_text(
        f"# a comment\n\n--env=Walker2d-v4\n--flagfile={inner}\n// another\n--hidden=64\n"
    )
    config = cli.parse_config([f"--flagfile={outer}", "--seed=4"])
    assert config == Config(env="Walker2d-v4", reward_scale=7.0, seed=4, hidden=64)
    paper = cli.parse_config([f"--flagfile={outer}", "--preset=paper"])  # its row for Walker2d is 3
    assert paper == Config(env="Walker2d-v4", preset="paper", reward_scale=7.0, seed=3, hidden=64)
    assert cli.parse_config(["--seed=4", "--flagfile", str(outer)]).seed == 3


def test_the_preset_of_a_flagfile_s_environment_applies(tmp_path):
    (tmp_path / "env.flags").write_text("--env=Humanoid-v5\n")
    flagfile = f"--flagfile={tmp_path / 'env.flags'}"
    assert cli.parse_config([flagfile, "--preset=paper"]).lambda_beta == 4e-4
    assert cli.parse_config([]).random_steps == 1000
    assert cli.parse_config([flagfile]).random_steps == 5000


def test_parse_config_raises_what_the_program_prints():
    with pytest.raises(ConfigError, match="^tau: "):
        cli.parse_config(["--tau=0"])


@pytest.fixture
def put(monkeypatch):
    """put(module, name, function) stands a function in for a command's own."""
    # set by the user: TensorFlow is not imported ahead to silence it
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "2")

    def put_function(module, name, function):
        stand_in = types.ModuleType(module)
        setattr(stand_in, name, function)
        monkeypatch.setitem(sys.modules, module, stand_in)

    return put_function


def test_evaluate_prints_one_line_of_json(put, capsys):
    put("virel_tf.evaluate.command", "evaluate_run", lambda *arguments: {"got": arguments})
    assert cli.main(["evaluate", "--run_dir=r", "--policy=last", "--episodes=3"]) == 0
    output = capsys.readouterr().out
    assert output.count("\n") == 1 and json.loads(output) == {"got": ["r", "last", 3, 1, ""]}


def test_evaluate_without_a_run_takes_the_folder_of_an_export(put, capsys):
    put("virel_tf.evaluate.command", "evaluate_export", lambda *arguments: {"got": arguments})
    assert cli.main(["evaluate", "--policy=some/where", "--video=film.GIF"]) == 0
    assert json.loads(capsys.readouterr().out) == {"got": ["some/where", 10, 1, "film.GIF"]}


def test_export_prints_one_line_of_json(put, capsys):
    put("virel_tf.export.command", "export_run", lambda *arguments: {"got": arguments})
    assert cli.main(["export", "--run_dir=r", "--policy=last", "--out=o", "--format=litert"]) == 0
    output = capsys.readouterr().out
    assert output.count("\n") == 1 and json.loads(output) == {"got": ["r", "last", "o", "litert"]}


def test_benchmark_gets_the_config_and_the_seconds(put, capsys):
    expected = Config(env="Hopper-v4", preset="paper", reward_scale=5.0)
    put(
        "virel_tf.benchmark.command",
        "run_benchmark",
        lambda config, seconds: {
            "same": config == expected,
            "type": type(config).__name__,
            "seconds": seconds,
        },
    )
    assert cli.main(["benchmark", "--env=Hopper-v4", "--preset=paper", "--seconds=3"]) == 0
    assert json.loads(capsys.readouterr().out) == {"same": True, "type": "Config", "seconds": 3.0}


@pytest.mark.parametrize("returned, code", [(None, 0), (0, 0), (130, 130)])
@pytest.mark.parametrize("command", [["train"], []])
def test_train_is_the_default_and_its_code_the_program_s(put, command, returned, code):
    configs = []
    put("virel_tf.train.loop", "train", lambda config: configs.append(config) or returned)
    assert cli.main([*command, "--seed=5"]) == code
    assert configs == [Config(seed=5)]


@pytest.mark.parametrize(
    "error, code, message",
    [
        (RunError("disk full:\n  no room"), 1, "virel-tf: disk full: no room\n"),
        (ConfigError("env", "unknown"), 2, "virel-tf: --env: unknown\n"),
        (KeyboardInterrupt(), 130, ""),
    ],
)
def test_what_a_run_raises_becomes_a_line_and_a_code(put, capsys, error, code, message):
    def train(config):
        raise error

    put("virel_tf.train.loop", "train", train)
    assert cli.main([]) == code
    assert capsys.readouterr().err == message
