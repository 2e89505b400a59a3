"""Agents watched while they work, with a real repository: what one of them does keeps nobody else from being seen."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from fleet.coders.known import find_coder
from fleet.config.runtime import Live
from fleet.core.life import Life, LifeState, Policy, Rule
from fleet.core.proof import Demands, OnBreach, Scope
from fleet.core.work import Attempt, Limits
from fleet.evidence.ledger import Ledger
from fleet.host import locks
from fleet.supervisor.flagged import FILE, Flagged
from fleet.supervisor.house import House
from fleet.supervisor.log import Log
from fleet.supervisor.notes import note_unkept
from fleet.supervisor.scope_watch import ScopeWatch
from fleet.supervisor.watch import Watch, Watched
from fleet.tracker.local import Local

SECONDS = 30.0
GIT = ("git", "-c", "user.name=a", "-c", "user.email=a@example.invalid")
ENDS = Demands(scope=Scope(on_breach=OnBreach.END))


class Scene:
    """A house, a repository, and agents in it that have said something."""

    def __init__(self, root: Path) -> None:
        self.said: list[Mapping[str, object]] = []
        home, self.repo = root / "home", root / "repo"
        home.mkdir()
        self.repo.mkdir()
        self.house = House(
            home, Local(home), Ledger(home), Live(home / "runtime.toml"), find_coder, Log(home, self.said.append), "me"
        )
        self.git("init", "-q")
        (self.repo / "a").write_text("a")
        self.git("add", "-A")
        self.git("commit", "-qm", "first")
        self.agents: dict[str, Attempt] = {}

    def git(self, *args: str) -> str:
        return subprocess.run([*GIT, *args], cwd=self.repo, check=True, capture_output=True, text=True).stdout.strip()

    def agent(self, task: str) -> Attempt:
        head = self.git("rev-parse", "HEAD")
        made = Attempt(
            f"{task}.1", task, 1, "c", None, str(self.repo), "me", 0.0, began_at=head, demands=ENDS, events=1
        )
        self.house.attempt_directory(made).mkdir(parents=True)
        self.agents[made.id] = made
        return made

    def events(self, name: str) -> list[Mapping[str, object]]:
        return [one for one in self.said if one["event"] == name]


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def told(event: asyncio.Event) -> Callable[[], asyncio.Handle]:
    """Set an event of this loop's from any thread."""
    loop = asyncio.get_running_loop()
    return lambda: loop.call_soon_threadsafe(event.set)


def test_an_agent_that_was_flagged_is_ended_though_its_supervisor_was_killed_before(scene: Scene) -> None:
    one, other, ended = scene.agent("t1"), scene.agent("t2"), list[str]()
    flag = msgspec.json.encode(Flagged((".github/ci.yml is protected",), ended=True))
    (scene.house.attempt_directory(one) / FILE).write_bytes(flag)

    async def meet() -> None:
        watch = ScopeWatch(scene.house, scene.agents.get)
        await watch.meet(one, lambda: ended.append(one.id))
        await watch.meet(other, lambda: ended.append(other.id))
        for met in (one, other):
            await watch.let_go(met.id)

    asyncio.run(meet())
    assert ended == [one.id]


def test_one_agent_that_cannot_be_ended_keeps_no_other_from_it_and_is_told_again(scene: Scene) -> None:
    one, other, asked = scene.agent("t1"), scene.agent("t2"), list[str]()
    (scene.repo / ".github").mkdir()
    (scene.repo / ".github" / "ci.yml").write_text("x")

    async def meet() -> None:
        again, ended = asyncio.Event(), asyncio.Event()

        def refuse() -> None:
            asked.append(one.id)
            if len(asked) > 1:
                tell()
            raise ValueError

        watch, tell = ScopeWatch(scene.house, scene.agents.get), told(again)
        await watch.meet(one, refuse)
        await watch.meet(other, told(ended))
        async with asyncio.timeout(SECONDS):
            await ended.wait()
            await again.wait()
        for met in (one, other):
            await watch.let_go(met.id)
        assert len(asyncio.all_tasks()) == 1, "what was begun has ended"

    asyncio.run(meet())
    assert [one["text"] for one in scene.events("scope not watched")] == ["ValueError: "]


class Broken(dict[LifeState, Rule]):
    """Rules that nobody can look up."""

    looks = 0

    def get(self, *_: object) -> Rule:
        self.looks += 1
        raise ValueError("no rules")


def test_one_agent_of_whom_nothing_can_be_thought_is_said_once_and_the_others_are_watched(scene: Scene) -> None:
    rules = Broken()

    async def meet() -> None:
        watch = Watch(scene.house, lambda attempt: None)
        bad = watch.meet(scene.agent("t1"), Policy(rules, quiet=1.0))
        good = watch.meet(scene.agent("t2"), Policy(quiet=1.0))
        async with asyncio.timeout(SECONDS):
            while rules.looks < 2:
                await good.stirred.wait()
                good.stirred.clear()
                good.hear(scene.agents["t2.1"], (), asyncio.get_running_loop().time())
        for met in (bad, good):
            await watch.let_go(met)
        assert good.news is not None
        assert len(asyncio.all_tasks()) == 1, "what was begun has ended"

    asyncio.run(meet())
    (said,) = scene.events("agents not watched")
    assert (said["attempt"], said["text"]) == ("t1.1", "ValueError: no rules")


def test_who_has_a_request_in_flight_at_our_gateway_waits_for_its_model_while_that_lives(scene: Scene) -> None:
    wall = scene.house.now()
    one, other = (replace(scene.agent(task), started=wall - 99, dispatched=wall - 99) for task in ("t1", "t2"))
    gateway = scene.house.home / "gateway"
    gateway.mkdir()
    (gateway / "ab.flying.json").write_bytes(msgspec.json.encode({one.id: wall - 50}))
    lock = locks.take(gateway / "ab.lock")
    assert lock is not None

    async def look(at: Watched) -> Life:
        async with asyncio.timeout(SECONDS):
            await at.stirred.wait()
        at.stirred.clear()
        assert at.news is not None
        return at.news.life

    async def meet() -> None:
        watch, policy = Watch(scene.house, lambda attempt: None), Policy(quiet=1.0)
        asks, works = watch.meet(one, policy), watch.meet(other, policy)
        found = await look(asks)
        assert (found.state, found.since) == (LifeState.MODEL, round(wall - 50, 3))
        assert found.why.startswith("a request of its is in flight at our gateway")
        assert (await look(works)).state is not LifeState.MODEL
        locks.release(lock)
        while found.state is LifeState.MODEL:
            found = await look(asks)
        for met in (asks, works):
            await watch.let_go(met)

    asyncio.run(meet())


def test_a_file_deep_below_that_is_written_to_again_is_a_change(scene: Scene) -> None:
    """In a worktree, where `.git` is a file, and with nothing new in the top directory."""
    scene.git("worktree", "add", "-q", str(scene.repo.parent / "place"))
    scene.repo = scene.repo.parent / "place"
    deep = scene.repo / "src" / "deep" / "x.py"
    deep.parent.mkdir(parents=True)
    deep.write_text("1")
    one = scene.agent("t1")

    async def meet() -> None:
        looks = asyncio.Event()
        tell = told(looks)
        watch = ScopeWatch(scene.house, lambda name: scene.agents[name] if tell() else None)
        await watch.meet(one, lambda: None)

        async def changed(after: float) -> float:
            async with asyncio.timeout(SECONDS):
                while (seen := watch.last_change(one.id) or 0.0) <= after:
                    await looks.wait()
                    looks.clear()
            return seen

        first = await changed(0.0)
        with deep.open("a") as file:
            file.write("2")
        assert await changed(first) > first
        await watch.let_go(one.id)
        assert watch.last_change(one.id) is None

    asyncio.run(meet())


@pytest.mark.parametrize(("model", "said"), [("gpt-5", []), ("nobody's", [", and its model has no price"])])
def test_a_cost_that_is_estimated_is_limited_and_nobody_is_told_that_it_is_not(
    scene: Scene, model: str, said: list[str]
) -> None:
    one = replace(scene.agent("t1"), coder="qwen", model=model, limits=Limits(60.0, 3, 1000, cost=5.0))
    note_unkept(scene.house, one)
    assert [told["text"] for told in scene.events("limit not kept")] == [
        f"qwen does not tell its cost{it}" for it in said
    ]
