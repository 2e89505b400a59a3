"""What a place gets before an agent begins, with a real git and a real shell."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from fleet.core import FleetError
from fleet.core.template import values
from fleet.core.workspace import Workspace
from fleet.host import inside, process
from fleet.places import ports
from fleet.places.furnish import Furnished, end_setup, furnish, quoted

GIT = ("git", "-c", "user.name=t", "-c", "user.email=t@t", "-c", "init.defaultBranch=main")
ENVIRONMENT = {"PATH": os.environ["PATH"], "HOME": "/nonexistent"}


def git(place: Path, *args: str) -> str:
    env = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1"}
    return subprocess.run([*GIT, *args], cwd=place, env=env, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository with a commit, in a directory with a space and an umlaut."""
    top = tmp_path / "my präject"
    top.mkdir()
    git(top, "init", "-q")
    (top / "README").write_text("hello\n")
    git(top, "add", "-A")
    git(top, "commit", "-qm", "one")
    return top


@pytest.fixture(params=["worktree", "clone"])
def place(request: pytest.FixtureRequest, project: Path, tmp_path: Path) -> Path:
    at = tmp_path / "places" / "one"
    if request.param == "clone":
        git(tmp_path, "clone", "-q", str(project), str(at))
    else:
        git(project, "worktree", "add", "-q", "-b", "one", str(at))
    return at


Furnish = Callable[..., Furnished]


@pytest.fixture
def do(place: Path, project: Path, tmp_path: Path) -> Furnish:
    def call(*, now_quick: bool = False, hear: Callable[[str], None] = lambda _: None, **keys: object) -> Furnished:
        known = values(branch="fix/auth", attempt="t1.1", task="t1", path=str(place), port=20_000)
        workspace = Workspace(**keys)  # type: ignore[arg-type]
        log = tmp_path / "attempt" / "setup.log"
        return furnish(
            place, project, workspace, known, environment=ENVIRONMENT, quick=now_quick, log=log, hear=hear
        )  # fmt: skip

    return call


def commit(project: Path, place: Path, path: str) -> None:
    """Have a file in the project's history and in the place."""
    git(project, "add", "-f", path)
    git(project, "commit", "-qm", path)
    git(place, "pull", "-q", str(project), "main")


def staged(place: Path) -> list[str]:
    git(place, "add", "-A")
    return git(place, "diff", "--cached", "--name-only", "-z").split("\0")[:-1]


def test_credential_files_come_with_their_mode_and_never_into_git(project: Path, place: Path, do: Furnish) -> None:
    (project / "config").mkdir()
    for name, mode in ((".env", 0o600), ("config/master.key", 0o640), ("a *[x] .key ", 0o644)):
        (project / name).write_text(f"secret of {name}")
        (project / name).chmod(mode)
    names = (".env", "config/master.key", "a *[x] .key ")
    made = do(credential_files=names)
    assert made.files == names
    assert made.warnings == ()
    for name in names:
        assert (place / name).read_bytes() == (project / name).read_bytes()
        assert (place / name).stat().st_mode == (project / name).stat().st_mode
    (place / "mine").write_text("result")
    (place / "b.key").write_text("another file")
    assert sorted(staged(place)) == ["b.key", "mine"]
    again = do(credential_files=names)
    assert again == made
    exclude = Path(git(place, "rev-parse", "--path-format=absolute", "--git-path", "info/exclude").strip())
    assert exclude.read_text().count("/.env\n") == 1


def test_many_places_of_one_repository_are_furnished_at_once(project: Path, tmp_path: Path) -> None:
    (project / ".env").write_text("secret")
    places = [tmp_path / f"place {n}" for n in range(6)]
    for n, place in enumerate(places):
        git(project, "worktree", "add", "-q", "-b", f"b{n}", str(place))
    workspace = Workspace(credential_files=(".env",))

    def one(place: Path) -> Furnished:
        return furnish(
            place, project, workspace, {}, environment=ENVIRONMENT, quick=False, log=tmp_path / "log", hear=print
        )  # fmt: skip

    with ThreadPoolExecutor(6) as pool:
        assert {made.files for made in pool.map(one, places)} == {(".env",)}
    assert (project / ".git/info/exclude").read_text().count("/.env\n") == 1
    assert [staged(place) for place in places] == [[]] * 6
    assert git(project, "status", "--porcelain") == ""


def test_what_git_ignores_already_needs_no_line_of_ours(project: Path, place: Path, do: Furnish) -> None:
    (project / ".gitignore").write_text(".env\n")
    commit(project, place, ".gitignore")
    (project / ".env").write_text("x")
    exclude = Path(git(place, "rev-parse", "--path-format=absolute", "--git-path", "info/exclude").strip())
    before = exclude.read_bytes()
    do(credential_files=(".env",))
    assert exclude.read_bytes() == before
    assert staged(place) == []


def test_a_file_that_git_has_is_left_alone_and_named(project: Path, place: Path, do: Furnish) -> None:
    (project / ".env").write_text("committed\n")
    commit(project, place, ".env")
    (project / ".env").write_text("changed since\n")
    made = do(credential_files=(".env",), env_file=".env", env={"PORT": "{port}"})
    assert made.files == ()
    assert made.warnings == (".env is in git, so the place has it as it was committed",)
    assert (place / ".env").read_text() == "committed\n"


def test_a_file_that_gitignore_takes_in_again_is_not_copied(project: Path, place: Path, do: Furnish) -> None:
    (project / ".gitignore").write_text("!.env\n")
    commit(project, place, ".gitignore")
    (project / ".env").write_text("x")
    with pytest.raises(FleetError, match="would get into git"):
        do(credential_files=(".env",))
    assert not (place / ".env").exists()


def test_a_missing_file_is_a_warning_with_its_name(project: Path, place: Path, do: Furnish) -> None:
    (project / "there").write_text("x")
    made = do(credential_files=("config/master.key", "there"))
    assert made.files == ("there",)
    assert made.warnings == (f"there is no config/master.key in {project}, so it was not copied",)


def test_a_link_is_copied_as_a_file_as_long_as_it_stays_in_the_project(
    project: Path, place: Path, tmp_path: Path, do: Furnish
) -> None:
    (project / "real.key").write_text("inside")
    (project / "link.key").symlink_to("real.key")
    do(credential_files=("link.key",))
    assert not (place / "link.key").is_symlink()
    assert (place / "link.key").read_text() == "inside"
    (tmp_path / "secret").write_text("outside")
    (project / "out.key").symlink_to(tmp_path / "secret")
    (project / "outside").symlink_to(tmp_path)
    (project / "of-git").symlink_to(".git/config")
    for name in ("out.key", "outside/secret", "of-git"):
        with pytest.raises(FleetError, match="leads out of the project"):
            do(credential_files=("link.key", name))
        assert not (place / name).exists()


def test_directories_and_other_things_are_refused(project: Path, do: Furnish) -> None:
    (project / "keys").mkdir()
    with pytest.raises(FleetError, match="is a directory"):
        do(credential_files=("keys",))
    os.mkfifo(project / "pipe")
    with pytest.raises(FleetError, match="cannot be copied"):
        do(credential_files=("pipe",))


def test_nothing_is_written_through_a_link_in_the_place(
    project: Path, place: Path, tmp_path: Path, do: Furnish
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "target").write_text("mine")
    (project / ".env").write_text("secret")
    (project / "config").mkdir()
    (project / "config/key").write_text("secret")
    (place / ".env").symlink_to(outside / "target")
    do(credential_files=(".env",))
    assert (outside / "target").read_text() == "mine"
    assert (place / ".env").read_text() == "secret"
    (place / "config").symlink_to(outside)
    with pytest.raises(FleetError, match="config/key"):
        do(credential_files=("config/key",))
    assert os.listdir(outside) == ["target"]


def test_variables_are_filled_in_and_written_for_their_owner_alone(project: Path, place: Path, do: Furnish) -> None:
    (project / ".env").write_text("SECRET=1\nPORT=3000")
    env = {"PORT": "{port}", "NEXT": "{port+1}", "URL": "db://{slug} #1", "QUOTE": "it's {{x}}", "EMPTY": ""}
    made = do(credential_files=(".env",), env_file=".env", env=env)
    slug = values(branch="fix/auth", attempt="", task="", path="")["slug"]
    assert made.env == {"PORT": "20000", "NEXT": "20001", "URL": f"db://{slug} #1", "QUOTE": "it's {x}", "EMPTY": ""}
    file = place / ".env"
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.read_text().startswith("SECRET=1\nPORT=3000\nPORT=20000\n")
    shown = subprocess.run(
        ["/bin/sh", "-c", '. ./.env; printf "%s|" "$SECRET" "$PORT" "$NEXT" "$URL" "$QUOTE" "$EMPTY"'],
        cwd=place, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert shown == f"1|20000|20001|db://{slug} #1|it's {{x}}||"
    assert staged(place) == []


@pytest.mark.parametrize("value", ["a'b$(touch x)", "a'\\", "'\"", "a\nb"])
def test_a_value_that_readers_would_read_differently_is_refused(value: str) -> None:
    with pytest.raises(FleetError, match="do not agree"):
        quoted("NAME", value)


@pytest.mark.parametrize("value", ["$(touch x)", "`x`", "a b", "a#b", 'say "x"', "a;b", "é"])
def test_a_shell_reads_a_value_as_it_is(value: str) -> None:
    said = subprocess.run(
        ["/bin/sh", "-c", f'X={quoted("X", value)}\nprintf %s "$X"'], capture_output=True, text=True, check=True
    )
    assert said.stdout == value


def test_set_up_commands_run_in_order_in_the_place_and_their_output_is_kept(
    place: Path, tmp_path: Path, do: Furnish
) -> None:
    heard: list[str] = []
    commands = (
        "pwd > where; echo one",
        "echo two >&2; echo $PORT; printf '\\033[31mred'",
        "cat where; env | sort > env",
    )
    made = do(setup=commands, env={"PORT": "{port}"}, hear=heard.append)
    assert made.commands == 3
    assert heard == ["one", "two", "20000", "\N{REPLACEMENT CHARACTER}[31mred", str(place)]
    log = tmp_path / "attempt" / "setup.log"
    assert log.stat().st_mode & 0o777 == 0o600
    assert "$ cat where; env | sort > env\n" in log.read_text()
    names = {line.partition("=")[0] for line in (place / "env").read_text().splitlines()}
    assert names <= {"PATH", "HOME", "PORT", "FLEET_SETUP", "PWD", "OLDPWD", "SHLVL", "_"}


def test_the_first_failure_stops_and_says_everything_that_helps(place: Path, tmp_path: Path, do: Furnish) -> None:
    with pytest.raises(FleetError) as caught:
        do(setup=("true", "seq 100; echo 'no such gem' >&2; exit 7", "touch never"))
    said, hint = caught.value.message, caught.value.hint or ""
    assert "exit code 7" in said
    assert "seq 100; echo" in said
    assert said.endswith("  99\n  100\n  no such gem")
    assert "\n  80\n" not in said
    assert str(tmp_path / "attempt" / "setup.log") in hint
    assert "--quick" in hint
    assert not (place / "never").exists()
    assert "\n50\n" in (tmp_path / "attempt" / "setup.log").read_text()


def test_quick_copies_files_and_runs_nothing(project: Path, place: Path, do: Furnish) -> None:
    (project / ".env").write_text("x")
    for made in (
        do(credential_files=(".env",), setup=("touch never",), now_quick=True),
        do(credential_files=(".env",), setup=("touch never",), quick=True),
    ):
        assert made.files == (".env",)
        assert (made.commands, made.skipped) == (0, 1)
    assert not (place / "never").exists()


STRAY = (
    "import os,signal,sys\n"
    "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    "os.setsid() if os.getpid() != os.getsid(0) else None\n"
    "print('here', flush=True)\n"
    "signal.pause()\n"
)


def test_out_of_time_the_whole_tree_is_ended(place: Path, do: Furnish) -> None:
    command = f'"{sys.executable}" -c "$STRAY" & "{sys.executable}" -c "$STRAY"'
    with pytest.raises(FleetError, match="took too long"):
        do(setup=(command,), env={"STRAY": STRAY}, setup_timeout=0.5)
    assert process.strays({"FLEET_SETUP": str(place)}) == []


def test_one_that_prints_without_end_is_ended_and_its_last_lines_are_heard(do: Furnish) -> None:
    with pytest.raises(FleetError, match="printed more than 64 MiB") as caught:
        do(setup=("yes",))
    assert caught.value.message.endswith("\n  y")


def test_what_a_command_leaves_running_is_ended_and_not_waited_for(place: Path, do: Furnish) -> None:
    made = do(setup=(f'"{sys.executable}" -c "$STRAY" & echo done',), env={"STRAY": STRAY}, setup_timeout=60.0)
    assert made.seconds < 60
    assert process.strays({"FLEET_SETUP": str(place)}) == []


def test_set_up_of_a_fleet_that_was_killed_can_be_ended(place: Path) -> None:
    left = subprocess.Popen(
        [sys.executable, "-c", STRAY], env={"FLEET_SETUP": str(place)}, stdout=subprocess.PIPE, start_new_session=True
    )
    assert left.stdout is not None
    assert left.stdout.readline() == b"here\n"
    assert end_setup(place) == 1
    assert left.wait(10) == -signal.SIGKILL
    left.stdout.close()


def test_in_the_project_itself_nothing_is_copied_or_written(project: Path, tmp_path: Path) -> None:
    (project / ".env").write_text("mine")
    workspace = Workspace(credential_files=(".env",), env={"A": "1"}, env_file=".env", setup=("echo $A > out",))
    log = tmp_path / "log"
    made = furnish(project, project, workspace, {}, environment=ENVIRONMENT, quick=False, log=log, hear=print)
    assert made.files == ()
    assert (project / ".env").read_text() == "mine"
    assert (project / "out").read_text() == "1\n"


def test_outside_git_files_are_copied_all_the_same(tmp_path: Path) -> None:
    project, place = tmp_path / "a", tmp_path / "b"
    project.mkdir()
    place.mkdir()
    (project / ".env").write_text("x")
    made = furnish(
        place, project, Workspace(credential_files=(".env",)), {}, environment={}, quick=False, log=tmp_path / "l",
        hear=print,
    )  # fmt: skip
    assert made.files == (".env",)


@pytest.mark.parametrize("planted", ["config", "config/deep"])
def test_a_file_is_never_put_behind_a_link(tmp_path: Path, planted: str) -> None:
    place, outside = tmp_path / "place", tmp_path / "outside"
    (place / planted).parent.mkdir(parents=True)
    outside.mkdir()
    (place / planted).symlink_to(outside)
    with pytest.raises(OSError, match="is a link"):
        inside.write(place, "config/deep/key", b"secret", 0o600)
    assert list(outside.iterdir()) == []


def test_no_two_living_attempts_have_a_port_in_common(tmp_path: Path) -> None:
    first = ports.take(tmp_path, "t1.1")
    second = ports.take(tmp_path, "t2.1")
    assert abs(first - second) >= 10
    assert ports.take(tmp_path, "t1.1") == first
    ports.free(tmp_path, "t1.1")
    ports.free(tmp_path, "t1.1")
    assert ports.take(tmp_path, "t3.1") == first
    late: list[int] = []

    def living() -> set[str]:
        late.append(ports.take(tmp_path, "t5.1"))  # by one that begins while somebody asks who lives
        return {"t2.1"}

    assert ports.forget(tmp_path, living) == ["t3.1"]
    assert ports.take(tmp_path, "t4.1") == first
    assert ports.take(tmp_path, "t5.1") == late[0]


def test_a_port_that_somebody_listens_on_is_given_to_nobody(tmp_path: Path) -> None:
    first = ports.take(tmp_path, "t1.1")
    ports.free(tmp_path, "t1.1")
    with socket.create_server(("127.0.0.1", first + 7)):
        assert ports.take(tmp_path, "t2.1") != first


def test_many_at_once_get_ports_of_their_own(tmp_path: Path) -> None:
    code = (
        "import sys, pathlib; from fleet.places import ports; print(ports.take(pathlib.Path(sys.argv[1]), sys.argv[2]))"
    )
    asked = [
        subprocess.Popen([sys.executable, "-c", code, str(tmp_path), f"t{n}.1"], stdout=subprocess.PIPE, text=True)
        for n in range(8)
    ]
    given = [int(one.communicate(timeout=60)[0]) for one in asked]
    assert len(set(given)) == 8
