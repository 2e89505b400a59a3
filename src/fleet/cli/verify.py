"""verify, and how a receipt looks on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from fleet.cli.checks import MARKS, check_lines
from fleet.cli.show import BAD, GOOD, MEH, data, json_option, size, talk
from fleet.core import BadConfig
from fleet.core.text import clean

if TYPE_CHECKING:
    from fleet.app.verify import Verified
    from fleet.batches.proof import Now
    from fleet.core.proof import Change
    from fleet.core.work import Attempt
    from fleet.evidence.audit import Audit, Finding
    from fleet.evidence.receipt import Check, Process, Receipt, Result

COLOURS = {"verified": GOOD, "refused": BAD, "unverified": MEH}
WIDE, MOST = 2000, 20
TAIL_LINES = 20  # of a check that failed


@click.command()
@click.argument("name", metavar="ID|BRANCH", required=False)
@click.option("--all", "everything", is_flag=True, help="Every receipt of this home.")
@click.option("--run/--no-run", default=None, help="Run the checks again, in a clean checkout.  [default: for one ID]")
@json_option
@click.pass_context
def verify(ctx: click.Context, name: str | None, everything: bool, run: bool | None, as_json: bool) -> None:
    """Check receipts again, from scratch: that nobody changed, removed or added one, and that what they name is there.

    Of an agent in a terminal that nobody has ended there is no receipt yet: what stands in its place now is judged as
    its receipt would be.

    Exit code 0: everything holds; 1: something does not, or is refused; 3: there is no such task, or it has no receipt.
    """
    from fleet.app.verify import verify as look

    if everything == (name is not None):
        raise BadConfig("name a task, an attempt or a branch, or say --all", hint="fleet verify --all")
    found = look(name, run=not everything if run is None else run)
    data(_plain(found)) if as_json else _show(found, whole=not everything)
    ctx.exit(0 if found.holds else 1)


def _plain(found: Verified) -> dict[str, object]:
    return {
        "holds": found.holds,
        "receipts": [
            {
                "attempt": one.attempt,
                "task": one.task,
                "holds": one.holds,
                "verdict": one.receipt.verdict if one.receipt else None,
                "reason": one.receipt.reason if one.receipt else "",
                "findings": one.findings,
            }
            for one in found.receipts
        ],
        "now": [
            {
                "attempt": one.attempt.id,
                "task": one.attempt.task,
                "branch": one.attempt.branch,
                "holds": one.holds,
                "verdict": one.proof,
                "reason": one.reason,
                "at": one.at,
                "alive": one.alive,
                "tip": one.tip,
                "result": one.result,
                "checks": one.checks,
            }
            for one in found.now
        ],
        "chain": {"receipts": found.links, "problems": found.chain},
    }


def _show(found: Verified, *, whole: bool) -> None:
    for one in found.receipts:
        if whole or not one.holds:
            _audited(one, whole=whole)
    for stands in found.now:
        _stands(stands)
    for problem in found.chain:
        click.echo(f"{MARKS[False]} {clean(problem, WIDE)}")
    if found.now and not found.receipts and not found.chain:
        return
    which, bad = _count(len(found.receipts), "receipt"), sum(not one.holds for one in found.receipts)
    of = f"{bad} of them {'does' if bad == 1 else 'do'} not hold" if bad else "the chain does not hold"
    talk(f"{which}: {of if bad or found.chain else 'everything holds'}")


def _stands(now: Now) -> None:
    """What stands in a place now; whoever merges the branch gets what is committed of it."""
    branch, result = clean(now.attempt.branch or now.attempt.task, WIDE), now.result
    verdict = click.style(now.proof.value, fg=COLOURS[now.proof.value], bold=True)
    click.echo(f"{branch}  {verdict}, as it stands now: {clean(now.reason, WIDE)}")
    if result.problem is None:
        click.echo(f"{'result:':11}{_result(result)}")
        _changes(result)
        _moved(result, now.attempt)
    if now.checks:
        _checks(list(now.checks), now.attempt.task)
    if result.uncommitted and now.holds:
        talk(f"not committed, so a merge of {branch} would be without it: {clean(', '.join(result.uncommitted), 300)}")
    if result.head is not None and now.tip != result.head and now.holds:
        at = f"at {now.tip[:12]}" if now.tip else "not there"
        talk(f"{branch} is {at} in your repository, and what was judged is on top of {result.head[:12]}")
    merge = f" Take it: git merge {branch}." if now.holds else ""
    talk(f"checked now; its agent {'still runs' if now.alive else 'has ended'}.{merge} End it: fleet kill {branch}")


def _audited(one: Audit, *, whole: bool) -> None:
    click.echo(f"{one.attempt}  {'holds' if one.holds else click.style('does not hold', fg=BAD)}")
    for finding in one.findings:
        if whole or finding.holds is False:
            click.echo(_found(finding))


def _found(finding: Finding) -> str:
    return f"  {MARKS[finding.holds]} {finding.what:11} {clean(finding.text, WIDE)}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def show_receipt(receipt: Receipt, seen: Audit | None) -> None:
    """A receipt for people: what it proves first, then what it is made of."""
    attempt = receipt.attempt
    verdict = receipt.verdict.value if receipt.verdict else "no verdict"
    told = f": {clean(receipt.reason, WIDE)}" if receipt.reason else ""
    click.echo(f"{attempt.id}  {click.style(verdict, fg=COLOURS.get(verdict), bold=True)}{told}")
    for name, text in (
        ("task", f"{attempt.verdict or 'not settled'}: {attempt.cause}" if attempt.cause else f"{attempt.verdict}"),
        ("agent", _agent(receipt)),
        ("process", _process(receipt.process)),
        ("result", _result(receipt.result)),
        ("output", _heard(receipt)),
        ("used", _used(receipt)),
    ):
        click.echo(f"{name + ':':11}{clean(text, WIDE)}")
    _changes(receipt.result)
    _moved(receipt.result, attempt)
    _checks(receipt.checks, attempt.task)
    _checks_not_run(receipt)
    _claims(receipt)
    if seen is not None:
        click.echo("receipt:")
        for finding in seen.findings:
            click.echo(_found(finding))


def _agent(receipt: Receipt) -> str:
    program, attempt = receipt.program, receipt.attempt
    version = program.version or "version unknown"
    which = f", {program.path} sha256 {program.sha256[:12]}" if program.sha256 else ""
    return f"{attempt.coder} {version}, model {attempt.model or 'its own'}{which}"


def _process(process: Process) -> str:
    ended = f"exit {process.code}" if process.code is not None else f"signal {process.signal}"
    parts = [process.cause if process.code is None and process.signal is None else ended]
    parts += [process.error] if process.error else []
    parts += [f"{process.wall:.1f} s"] if process.wall is not None else []
    parts += [f"CPU {process.cpu:.1f} s"] if process.cpu is not None else []
    parts += [f"memory {size(process.memory)}"] if process.memory else []
    parts += [f"{process.leftovers} left behind and ended"] if process.leftovers else []
    parts += [f"{process.survivors} could not be ended"] if process.survivors else []
    parts += [f"not fenced: {process.unfenced}"] if process.unfenced else []
    return ", ".join(parts)


def _result(result: Result) -> str:
    parts = [_size(result), _count(len(result.commits), "commit")]
    parts += [f"{len(result.breaches)} outside its scope"] if result.breaches else []
    parts += [f"not committed: {len(result.uncommitted)}"] if result.uncommitted else []
    parts += [f"left out, because of a filter: {len(result.left_out)}"] if result.left_out else []
    parts += [f"lands as {result.landing[:12]}"] if result.landing else []
    return ", ".join(parts)


def _size(result: Result) -> str:
    """How much differs, of all of it: only a part may be listed. An older receipt has the list alone."""
    listed = {side: sum(getattr(one, side) or 0 for one in result.changes) for side in ("added", "removed")}
    of_all = {"files": len(result.changes)} | listed | result.totals
    return f"{_count(of_all['files'], 'file')}, +{of_all['added']} -{of_all['removed']}"


def _heard(receipt: Receipt) -> str:
    heard = receipt.heard
    if heard.calls is None:
        calls = "tool calls unknown"
    else:
        named = ", ".join(f"{name} {count}" for name, count in sorted(heard.tools.items())[:MOST])
        calls = _count(heard.calls, "tool call") + (f" ({named})" if named else "")
    parts = [size(heard.size), calls]
    parts += [f"{heard.unmatched} never ended"] if heard.unmatched else []
    parts += [f"said to be run, and never was: {'; '.join(heard.claimed_only[:MOST])}"] if heard.claimed_only else []
    return ", ".join(parts)


def _used(receipt: Receipt) -> str:
    from fleet.config.units import dollars_text, tokens_text

    attempt = receipt.attempt
    tokens = "tokens unknown" if attempt.tokens is None else f"{tokens_text(attempt.tokens)} tokens"
    if attempt.cost is None and attempt.estimate is not None:
        return f"{tokens}, as the agent says; about {dollars_text(attempt.estimate)} by the price list"
    cost = "cost unknown" if attempt.cost is None else dollars_text(attempt.cost)
    return f"{tokens}, {cost}, as the agent says; `fleet cost` has what the gateway counted"


def _changes(result: Result) -> None:
    for one in result.changes[:MOST]:
        click.echo(f"  {_change(one)}")
    if (every := result.totals.get("files", len(result.changes))) > MOST:
        click.echo(f"  … and {every - MOST} more")
    for breach in result.breaches[:MOST]:
        click.echo(f"  {MARKS[False]} {clean(breach.reason, WIDE)}")


def _moved(result: Result, attempt: Attempt) -> None:
    from fleet.evidence.moved import said, way_back

    if result.moved:
        click.echo("moved meanwhile in the repository, by the agent or by somebody else:")
    for one in (result.moved or ())[:MOST]:
        click.echo(f"  {MARKS[None]} {clean(said(one), WIDE)}")
        click.echo(f"    {clean(way_back(one, attempt.repository or attempt.cwd), WIDE)}")
    if len(result.moved or ()) > MOST:
        click.echo(f"  … and {len(result.moved or ()) - MOST} more")


def _change(one: Change) -> str:
    lines = "binary" if one.added is None else f"+{one.added} -{one.removed or 0}"
    moved = f"{one.old_path} -> " if one.old_path else ""
    mode = f"  {one.old_mode} -> {one.mode}" if one.old_mode and one.mode and one.old_mode != one.mode else ""
    kind = "" if one.entry.value == "file" else f"  {one.entry.value}"
    return clean(f"{one.change.value:9} {moved}{one.path}  {lines}{mode}{kind}", WIDE)


def _checks(checks: list[Check], task: str) -> None:
    click.echo("checks:")
    for line in check_lines(checks, task, TAIL_LINES):
        click.echo(line)


def _checks_not_run(receipt: Receipt) -> None:
    """Name each check that was asked for and did not run, with the reason."""
    attempt = receipt.attempt
    asked = attempt.demands.checks if attempt.demands is not None else ()
    ran = {check.command for check in receipt.checks}
    why = clean(receipt.reason or attempt.cause or "nobody looked at the result", WIDE)
    for check in asked:
        if check.run not in ran:
            click.echo(f"  {MARKS[None]} {clean(check.name or check.run, 200)}: not run: {why}")
    if not asked and not ran:
        click.echo("  none were given")


def _claims(receipt: Receipt) -> None:
    if receipt.claims:
        click.echo("claims:")
    for one in receipt.claims:
        click.echo(f"  {MARKS[one.holds]} {clean(one.text, 300)}")
        click.echo(f"    {clean(one.evidence, 300)}")
