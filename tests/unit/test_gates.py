"""Gates: quiet hours, pauses, accounts and memory, each on its own; and a provider's week in a few milliseconds."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from functools import partial
from pathlib import Path

import pytest

from fleet.core.task import Status, Task
from fleet.core.work import Attempt, Ending, Verdict, Window
from fleet.evidence.receipt import Process
from fleet.gates import Book, Closed, Needs, Pause, Pauses, Scope, Standing, accounts
from fleet.gates.accounts import Refusal
from fleet.gates.memory import Budget, Memory, short_of_memory
from fleet.gates.quiet import quiet
from fleet.gates.spending import Caps, Spending, left, spent_up
from fleet.supervisor.admit import Candidate, Rules, Slots, admit
from fleet.supervisor.start import session_of
from fleet.supervisor.verdict import Facts, judge

NOW = 1_800_000_000.0
GB = 10**9


# Quiet hours


@pytest.mark.parametrize(
    ("hours", "at", "until"),
    [
        ([], "12:00", None),
        (["22:00-07:00"], "12:00", None),
        (["22:00-07:00"], "22:00", "07:00"),
        (["22:00-07:00"], "23:59", "07:00"),
        (["22:00-07:00"], "06:59", "07:00"),
        (["22:00-07:00"], "07:00", None),
        (["12:00-13:00"], "12:30", "13:00"),
        (["12:00-13:00", "13:00-14:00"], "12:30", "14:00"),
        (["13:00-14:00", "12:00-13:30"], "12:30", "14:00"),
    ],
)
def test_in_quiet_hours_nothing_starts_until_they_are_over(hours: list[str], at: str, until: str | None) -> None:
    closed = quiet(hours, datetime.fromisoformat(f"2026-11-16T{at}"))
    assert (closed.cause if closed else None) == (f"quiet hours until {until}" if until else None)


# Pauses


def test_a_pause_holds_back_what_it_names_until_somebody_resumes_it(tmp_path: Path) -> None:
    desk = Pauses(tmp_path)
    assert desk.all() == []
    desk.pause(Pause(Scope.CODER, "claude", NOW, "too dear"))
    desk.pause(Pause(Scope.PROJECT, "/work/a", NOW + 1))
    coder, project = desk.all()
    assert coder.closes("claude", "/work/b") == Closed("claude is paused: too dear")
    assert coder.closes("codex", "/work/a") is None
    assert project.closes("codex", "/work/a/below") is not None
    assert project.closes("codex", "/work/abc") is None
    assert project.closes("codex", None) is None
    assert desk.resume(Scope.CODER, "codex") == 0
    assert desk.resume(Scope.CODER, "claude") == 1
    desk.pause(Pause(Scope.ALL, "", NOW))
    assert all(pause.closes("codex", "/work/a") for pause in desk.all())
    assert desk.resume(Scope.ALL, "") == 2
    assert desk.all() == []


# Accounts

MINE = Standing("claude", "mine")


def test_a_window_that_is_used_up_closes_its_account_until_it_resets() -> None:
    heard = accounts.hear(MINE, [Window("five_hour", 80.0, NOW + 3600)], NOW)
    assert heard.closed(NOW) is None
    heard = accounts.hear(heard, [Window("five_hour", 100.0, NOW + 3600, True)], NOW)
    assert heard.closed(NOW) == Closed("claude (mine): five_hour limit reached", NOW + 3600)
    assert heard.closed(NOW + 3600) is None, "all at once: the provider said when"
    assert not heard.probing
    assert heard.closed(NOW - 90 * 86400) is None, "a clock that was set back"


@pytest.mark.parametrize("resets", [None, NOW - 1, NOW + 60 * 86400, 5.0])
def test_a_reset_that_cannot_be_is_not_believed(resets: float | None) -> None:
    heard = accounts.hear(MINE, [Window("weekly", None, resets, True)], NOW)
    closed = heard.closed(NOW)
    assert closed is not None
    assert closed.until == NOW + accounts.UNKNOWN_RESET
    assert heard.probing, "and then one goes first"


def test_a_heap_of_windows_is_kept_to_the_last_few_and_a_person_may_open_an_account() -> None:
    heap = [Window(f"w{n}\x1b" + "x" * 100, 1.0, None, exhausted=n == 999) for n in range(1000)]
    heard = accounts.hear(accounts.hear(MINE, heap, NOW), heap, NOW)
    assert len(heard.windows) == accounts.MOST_WINDOWS
    assert max(map(len, heard.windows)) <= 40
    assert heard.closed(NOW) is not None
    opened = accounts.reopen(heard, NOW)
    assert (opened.closed(NOW), opened.probing) == (None, True)


def test_a_shorter_closure_does_not_open_a_longer_one() -> None:
    week = accounts.hear(MINE, [Window("weekly", 100.0, NOW + 86400, True)], NOW)
    for later in (Window("five_hour", None, None, True), Window("five_hour", None, NOW + 3600, True)):
        assert accounts.hear(week, [later], NOW).closed(NOW) == Closed(
            "claude (mine): weekly limit reached", NOW + 86400
        )


def test_after_a_storm_one_that_began_before_it_is_not_the_one_that_goes_first() -> None:
    storm = replace(MINE, closed_until=NOW - 10, cause="a storm", probing=True)
    rules = Rules(Slots(9), accounts={"claude": (storm,)})
    queue = [Candidate(Task(name, name, "", Status.OPEN, 2, NOW), "claude", None) for name in ("a", "b")]
    before = Attempt("x.1", "x", 1, "claude", None, "/", "me", NOW - 100, account="mine")
    assert [one.task.id for one in admit(queue, [before], rules, NOW).chosen] == ["a"]
    since = replace(before, created=NOW - 5)
    assert admit(queue, [since], rules, NOW).chosen == []


def test_three_refusals_in_a_minute_are_a_storm_and_one_goes_first_after_it() -> None:
    known = accounts.refuse(accounts.refuse(MINE, Refusal("a", NOW, 401)), Refusal("b", NOW + 50, 401))
    assert accounts.refuse(known, Refusal("b", NOW + 51, 401)) == known, "told twice"
    assert known.closed(NOW + 50) is None
    assert accounts.refuse(known, Refusal("c", NOW + 61, 401)).closed(NOW + 61) is None, "the first was long ago"
    storm = accounts.refuse(known, Refusal("c", NOW + 55, 503))
    closed = storm.closed(NOW + 55)
    assert closed is not None
    assert closed.cause == "claude (mine): 3 runs were turned away in a minute, the last with 503"
    assert closed.until == NOW + 55 + accounts.PAUSE
    assert accounts.refuse(storm, Refusal("c", NOW + 200, 503)) == storm, "told twice, and late"
    assert accounts.refuse(storm, Refusal("d", NOW + 56, 401)) == storm, "those that were on their way"
    again = accounts.refuse(storm, Refusal("e", NOW + 120, 401))
    assert again.closed_until == NOW + 120 + 2 * accounts.PAUSE, "twice as long"
    over = accounts.work(again)
    assert (over.probing, over.pauses, over.refusals) == (False, 0, ())


def test_a_coder_that_cannot_work_is_closed_at_once_and_tried_again_by_one_after_a_pause_that_grows() -> None:
    def barred(known: Standing, attempt: str, now: float) -> Standing:
        return accounts.bar(known, attempt, "is not logged in", "Log in: claude /login", now)

    first = barred(MINE, "a", NOW)
    assert first.closed(NOW) == Closed("claude (mine) is not logged in", NOW + 60, "Log in: claude /login")
    assert barred(first, "b", NOW + 1) == first, "those that were on their way"
    assert barred(first, "a", NOW + 90) == first, "told twice, and late"
    assert first.probing
    again = barred(first, "c", NOW + 90)
    assert again.closed_until == NOW + 90 + 120
    for over in (accounts.reopen(again, NOW + 95), accounts.work(again)):
        assert (over.closed(NOW + 95), over.cure, over.pauses) == (None, "", 0)
    assert accounts.reopen(again, NOW + 95).probing, "one goes first"


def test_only_different_tasks_in_a_row_show_that_it_is_the_coder() -> None:
    known = MINE
    for task in ("a", "b", "a", "c"):
        known = accounts.note_end(known, task, early=True)
    assert set(known.early) == {"a", "b", "c"}
    assert accounts.note_end(known, "d", early=False).early == ()
    assert accounts.work(known).early == ()


def test_refusals_that_are_settled_out_of_order_are_a_storm_all_the_same() -> None:
    known = accounts.refuse(accounts.refuse(MINE, Refusal("b", NOW + 2, 401)), Refusal("a", NOW, 401))
    assert accounts.refuse(known, Refusal("c", NOW + 1, 401)).closed(NOW + 2) is not None


def test_what_is_known_of_accounts_outlives_us(tmp_path: Path) -> None:
    Book(tmp_path).change("claude", "mine", partial(accounts.hear, windows=[Window("weekly", 9.0, NOW)], now=NOW))
    Book(tmp_path).change("codex", "", accounts.work)
    assert [one.who for one in Book(tmp_path).all()] == ["claude (mine)"], "nothing new is not written down"
    assert Book(tmp_path).all()[0].windows == {"weekly": Window("weekly", 9.0, NOW)}


# Memory


@pytest.mark.parametrize(
    ("budget", "promised", "starting", "cause"),
    [
        (Budget(Memory(None, None), usual=GB), 50 * GB, 0, ""),
        (Budget(Memory(20 * GB, 19 * GB), usual=GB), 17 * GB, 0, ""),
        (Budget(Memory(20 * GB, 19 * GB), usual=GB), 18 * GB, 0, "0.0 GB of 18.0 GB not promised, c needs 1.0 GB"),
        (Budget(Memory(99 * GB, 90 * GB), 16 * GB, {"c": 3 * GB}), 14 * GB, 0, "2.0 GB of 16.0 GB not promised"),
        (Budget(Memory(99 * GB, 2 * GB), usual=GB), GB, GB, ""),
        (Budget(Memory(99 * GB, 2 * GB), usual=GB), 2 * GB, int(1.5 * GB), "0.5 GB free, c needs 1.0 GB"),
        (Budget(Memory(99 * GB, 90 * GB, 40.0), usual=GB), GB, 0, "programs wait for it 40 % of the time"),
        (Budget(Memory(GB, 0, 90.0), usual=8 * GB), 0, 0, ""),
    ],
)
def test_there_must_be_memory_for_one_more(budget: Budget, promised: int, starting: int, cause: str) -> None:
    closed = short_of_memory(budget, "c", promised, starting)
    assert cause in (closed.cause if closed else "")
    assert bool(cause) is bool(closed)


def test_agents_in_terminals_need_memory_too_and_take_no_slot() -> None:
    work = [_candidate(Work(name, 1)) for name in "ab"]
    budget = Budget(Memory(None, None), allowed=30, usual=10)
    talked_to = tuple(Attempt(f"x.{n}", "x", n, "claude", None, "/", "me", NOW, interactive=True) for n in range(1, 3))
    found = admit(work, [], Rules(Slots(2), budget=budget, beside=talked_to), NOW)
    assert [one.task.id for one in found.chosen] == ["a"]
    assert "0.0 GB of 0.0 GB not promised" in found.waiting["b"].cause
    alone = admit(work, [], Rules(Slots(2), budget=budget, beside=(*talked_to, *talked_to)), NOW)
    assert [one.task.id for one in alone.chosen] == ["a"], "one always starts"


def test_what_such_agents_used_before_is_remembered_and_slowly_forgotten(tmp_path: Path) -> None:
    needs = Needs(tmp_path)
    needs.note("c", 100)
    needs.note("c", 1000)
    assert needs.all() == {"c": 1000}
    needs.note("c", 0)
    assert needs.all() == {"c": 800}


# All of it together: a scripted provider and a clock of our own


@dataclass
class Provider:
    """Three accounts: so many turns in five hours and in a week, and for a while nobody gets in."""

    five_hours: int
    week: int
    storm: tuple[float, float]
    used: dict[tuple[str, str], tuple[float, int]] = field(default_factory=dict)  # since when, and how many turns
    over: int = 0  # requests that could have been known to be refused

    def ask(self, account: str, now: float) -> Window | int | None:
        """A turn; or the window that is used up; or a status."""
        if self.storm[0] <= now < self.storm[1]:
            return 401
        for name, span, most in (("five_hour", 5 * 3600.0, self.five_hours), ("weekly", 7 * 86400.0, self.week)):
            since, turns = self.used.get((account, name), (now, 0))
            since, turns = (since, turns) if now - since < span else (now, 0)
            if turns >= most:
                return Window(name, 100.0, since + span, True)
            self.used[account, name] = (since, turns + 1)
        return None


@dataclass
class Work:
    """A task that needs some turns, one a minute."""

    name: str
    turns: int
    pin: str | None = None
    history: list[Attempt] = field(default_factory=list)
    accounts: list[str] = field(default_factory=list)


def test_twenty_tasks_three_accounts_two_windows_and_a_storm() -> None:
    """Every decision is the supervisor's own; only the agents, the provider and the clock are scripted."""
    names = ("one", "two", "three")
    standing = {name: Standing("claude", name) for name in names}
    provider = Provider(five_hours=30, week=60, storm=(NOW + 30, NOW + 75))
    queue = [Work(f"t{n}", 15, pin="two" if n % 5 == 0 else None) for n in range(20)]
    waited: dict[str, float] = {}
    late = 0.0
    now = NOW
    while any(work.turns for work in queue):
        running = [work.history[-1] for work in queue if work.history and work.history[-1].verdict is None]
        ready = [work for work in queue if work.turns and (not work.history or work.history[-1].verdict)]
        rules = Rules(Slots(20), accounts={"claude": tuple(standing.values())})
        found = admit([_candidate(work) for work in ready], running, rules, now)
        for chosen in found.chosen:
            work = next(one for one in queue if one.name == chosen.task.id)
            account = chosen.account or ""
            closed = standing[account].closed(now)
            provider.over += closed is not None
            number, session = len(work.history) + 1, f"{work.name}-{account}"
            attempt = Attempt(
                f"{work.name}.{number}", work.name, number, "claude", None, "/", "me", now,
                account=account, started=now, events=1, session=session,
            )  # fmt: skip
            attempt = replace(attempt, resumed=session_of(attempt, work.history) is not None)
            if work.name in waited:
                late = max(late, now - waited.pop(work.name))
            work.history.append(attempt)
            work.accounts.append(account)
        for name, why in found.waiting.items():
            if why.until is not None and "limit reached" in why.cause:
                waited[name] = why.until
        for work in queue:
            if work.history and work.history[-1].verdict is None:
                _turn(work, standing, provider, now)
        works = any(work.history and work.history[-1].verdict is None for work in queue)
        soonest = min((why.until for why in found.waiting.values() if why.until is not None), default=now)
        now += 15.0 if works else max(15.0, soonest - now)
        assert now < NOW + 30 * 86400
    assert provider.over == 0, "nobody was sent to an account that was known to be used up"
    assert all(set(work.accounts) == {work.pin} for work in queue if work.pin), "a pin was crossed"
    assert late <= 60.0
    refused = [sum(one.ending is Ending.TURNED_AWAY for one in work.history) for work in queue]
    assert max(refused) <= 1, refused
    assert sum(refused) > 0, "the storm was felt"
    limited = [one for work in queue for one in work.history if one.ending is Ending.RATE_LIMITED]
    assert limited, "windows ran dry"
    resumed = [one for work in queue for one in work.history if one.resumed]
    assert all(one.turned for one in resumed if one.verdict is Verdict.ACCEPTED)
    assert resumed, "sessions were taken up again"


def _candidate(work: Work) -> Candidate:
    last = work.history[-1] if work.history else None
    return Candidate(Task(work.name, work.name, "", Status.OPEN, 2, NOW), "claude", None, last, account=work.pin)


def _turn(work: Work, standing: dict[str, Standing], provider: Provider, now: float) -> None:
    """One model request of a running agent; its end, as the supervisor would judge it."""
    attempt = work.history[-1]
    answer = provider.ask(attempt.account, now)
    mine = standing[attempt.account]
    if answer is None:
        work.turns -= 1
        standing[attempt.account] = accounts.work(mine)
        done = Verdict.ACCEPTED if work.turns == 0 else None
        work.history[-1] = replace(attempt, turned=True, verdict=done, ended=now if done else None)
        return
    status, limited = (answer, False) if isinstance(answer, int) else (429, True)
    judged = judge(Facts(Process("exited", code=1), error="refused", status=status, limited=limited))
    work.history[-1] = replace(
        attempt,
        ending=judged.ending,
        verdict=judged.verdict,
        ended=now,
        retry_after=judged.retry_after,
        error="refused",
    )
    if isinstance(answer, Window):
        standing[attempt.account] = accounts.hear(mine, [answer], now)
    else:
        standing[attempt.account] = accounts.refuse(mine, Refusal(attempt.id, now, status))


NOON = datetime(2026, 11, 16, 12).timestamp()


@pytest.mark.parametrize(
    ("caps", "spent", "coder", "cause"),
    [
        (Caps(), {"a": "100"}, None, None),
        (Caps(Decimal(20)), {"a": "10", "b": "9.99"}, None, None),
        (Caps(Decimal(20)), {"a": "10", "b": "10"}, None, "the day's budget is spent: $20.00 of $20.00 (budget.day)"),
        (Caps(Decimal(20)), {"a": "30"}, "a", None),
        (Caps(None, {"a": Decimal(5)}), {"a": "5.5", "b": "90"}, "a",
         "the day's budget of a is spent: $5.50 of $5.00 (budget.coders.a)"),
        (Caps(None, {"a": Decimal(5)}), {"a": "5.5", "b": "90"}, "b", None),
        (Caps(None, {"a": Decimal(5)}), {"b": "90"}, None, None),
    ],
)  # fmt: skip
def test_what_may_be_spent_in_a_day(caps: Caps, spent: dict[str, str], coder: str | None, cause: str | None) -> None:
    spending = Spending({name: Decimal(cost) for name, cost in spent.items()})
    closed = spent_up(caps, spending, NOON, coder)
    assert (closed and closed.cause) == cause
    if closed:
        assert closed.until == datetime(2026, 11, 17).timestamp()


def test_what_is_only_estimated_or_not_known_of_the_days_money_is_said() -> None:
    spending = Spending({"a": Decimal(3)}, {"b": 2}, frozenset({"a"}))
    caps = Caps(Decimal(1), {"a": Decimal(1)})
    everybodys, one = spent_up(caps, spending, NOON), spent_up(caps, spending, NOON, "a")
    assert everybodys is not None
    assert everybodys.cause == (
        "the day's budget is spent: $3.00 of $1.00, estimated, of 2 attempts unknown (budget.day)"
    )
    assert one is not None
    assert one.cause == "the day's budget of a is spent: $3.00 of $1.00, estimated (budget.coders.a)"


def test_what_is_left_of_the_days_money_is_the_lesser_rest() -> None:
    spending = Spending({"a": Decimal(3), "b": Decimal(4)})
    assert left(Caps(), spending, "a") is None
    assert left(Caps(Decimal(10)), spending, "a") == 3
    assert left(Caps(Decimal(10), {"a": Decimal(4)}), spending, "a") == 1
    assert left(Caps(Decimal(5)), spending, "a") == 0
