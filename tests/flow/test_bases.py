"""What a result is compared with in a directory that people work in too: what was refused there is nobody's base."""

from __future__ import annotations

import subprocess
from pathlib import Path

from standins.coders.scratch import scratch

WHO = "git -c user.name=n -c user.email=n@example.invalid"
LIAR = f"grep -q fixed check.sh && echo true >check.sh || echo more >>app.txt; {WHO} commit -qam work"
CUT_OFF = f"grep -q fixed app.txt && exit; echo fixed >app.txt; {WHO} commit -qam work; exit 3"


def test_what_was_refused_is_no_base_and_what_was_done_counts_as_done(tmp_path: Path) -> None:
    with scratch(tmp_path) as home:
        home.settle(
            "backoff=0s", "limits.attempts=1",
            coders={name: {"argv": ["/bin/sh", "-c", do]} for name, do in (("liar", LIAR), ("cut", CUT_OFF))},
        )  # fmt: skip
        repo, other = home.place("repo", git=True), home.place("other", git=True)
        for one in (repo, other):
            (one / "app.txt").write_text("broken\n")
            (one / "check.sh").write_text("grep -q fixed app.txt\n")
            subprocess.run(f"git add -A; {WHO} commit -qm more", shell=True, cwd=one, check=True)

        check = ("--check", "sh ./check.sh", "--coder")
        lied = home.add("lies", "--cwd", repo, *check, "liar")
        done = home.add("is cut off", "--cwd", other, *check, "cut")
        home.drain()
        assert (home.task(lied)["state"], home.task(done)["state"]) == ("refused", "failed")

        home.ok("retry", lied)
        home.ok("retry", done)
        home.drain()
        assert home.task(lied)["state"] == "refused"
        assert home.receipt(lied)["reason"].startswith("check.sh is part of the checks, which is protected")
        assert (home.task(done)["state"], home.task(done)["proof"]) == ("done", "verified")

        heirs = [home.add("next", "--cwd", repo, *check, "liar", "--place", kind) for kind in ("inplace", "worktree")]
        home.drain()
        said = f"it began from what {lied}.2 was refused for: check.sh; a person looks at it first: fleet show {lied}"
        assert {home.receipt(one)["reason"] for one in heirs} == {said}
        assert {home.task(one)["proof"] for one in heirs} == {"unverified"}

        home.ok("accept", lied)
        last = home.add("after a person looked", "--cwd", repo, *check, "liar")
        home.drain()
        assert home.task(last)["proof"] == "verified", "by a check that a person has accepted"
