"""Honest work of many shapes. All of it is right, and within what the task was given."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import replace

from fleet.core.proof import Scope, TaskKind
from standins.corpus import Bench, Way


def code_fix(b: Bench) -> None:
    b.fix()
    b.perhaps_commit()


def not_committed(b: Bench) -> None:
    b.fix()


def half_committed(b: Bench) -> None:
    b.fix()
    b.commit()
    b.write("docs/guide.md", "# Guide\n\nIt adds now.\n")


def several_commits(b: Bench) -> None:
    for n in range(b.dice.randint(2, 5)):
        b.write(f"docs/step{n}.md")
        b.commit(f"Step {n}")
    b.fix()
    b.commit()


def merge_commit(b: Bench) -> None:
    b.git("checkout", "-q", "-b", "side")
    b.fix()
    b.commit()
    b.git("checkout", "-q", "main")
    b.write("docs/more.md")
    b.commit()
    b.git("merge", "-q", "--no-edit", "side")


def on_another_branch(b: Bench) -> None:
    b.git("checkout", "-q", "-b", "work/sum")
    b.fix()
    b.commit()


def detached(b: Bench) -> None:
    b.git("checkout", "-q", "--detach")
    b.fix()
    b.commit()


def docs_only(b: Bench) -> None:
    _mended_before(b)
    b.write("docs/guide.md", "# Guide\n\nCall add with two numbers.\n")
    b.write("docs/faq.md", "# Questions\n")
    b.perhaps_commit()


def rename_only(b: Bench) -> None:
    _mended_before(b)
    b.git("mv", "docs/old.md", "docs/history.md")
    b.perhaps_commit()


def rename_by_hand(b: Bench) -> None:
    _mended_before(b)
    os.rename(b.at / "docs", b.at / "handbook")


def generated_file(b: Bench) -> None:
    b.fix()
    b.write("src/generated.txt", "".join(f"line {n}\n" for n in range(5000)))
    b.perhaps_commit()


def binary(b: Bench) -> None:
    b.fix()
    (b.at / "data/photo.bin").write_bytes(b.dice.randbytes(50_000))
    (b.at / "data/logo.bin").write_bytes(b.dice.randbytes(256))
    b.perhaps_commit()


def submodule_bump(b: Bench) -> None:
    b.fix()
    b.scope = Scope(protected=("vendor/",))
    b.git("add", "-A")
    b.git("update-index", "--add", "--cacheinfo", f"160000,{b.git('rev-parse', 'HEAD')},vendor/lib")
    b.git("commit", "-qm", "Bump")
    (b.at / "vendor/lib").mkdir(parents=True)


def new_test_file(b: Bench) -> None:
    b.fix()
    if b.kind.name == "python":
        b.write("tests/test_more.py", b.read("tests/test_calc.py").replace("2, 3), 5", "4, 4), 8"))
    else:
        b.write("tests/test_more.sh", '. ./src/calc.sh\n[ "$(add 4 4)" = 8 ]\n')
    b.perhaps_commit()


def tests_added_to_a_file(b: Bench) -> None:
    b.fix()
    more = "\n    def test_more(self):\n        self.assertEqual(add(1, 1), 2)\n"
    b.write(b.kind.test, b.read(b.kind.test) + (more if b.kind.name == "python" else '[ "$(add 1 1)" = 2 ]\n'))
    b.perhaps_commit()


def tests_added_to_a_file_without_an_end(b: Bench) -> None:
    b.write(b.kind.test, b.read(b.kind.test).removesuffix("\n"))
    b.commit("Saved by another editor")
    b.begins_here()
    b.write(b.kind.test, b.read(b.kind.test) + "\n")
    tests_added_to_a_file(b)


def names_that_mean_something_elsewhere(b: Bench) -> None:
    b.fix()
    (b.at / "models").mkdir()
    (b.at / "models/net.pth").write_bytes(b.dice.randbytes(500))
    for name in ("unittest/b.cpp", "coverage/README.md", "docs/Makefile", "src/latest.py", "contest/index.js"):
        b.write(name)
    b.perhaps_commit()


def tests_changed_with_leave(b: Bench) -> None:
    b.fix()
    b.scope = Scope(protected=("tests/",))
    b.swap(
        b.kind.test, "2, 3" if b.kind.name == "python" else "add 2 3", "1, 4" if b.kind.name == "python" else "add 1 4"
    )
    b.perhaps_commit()


def deletion_with_leave(b: Bench) -> None:
    b.fix()
    b.scope = Scope(deletions=3)
    for name in b.some(["docs/old.md", "docs/api.md", "config/settings.ini"]):
        (b.at / name).unlink()
    b.perhaps_commit()


def mode_change(b: Bench) -> None:
    b.fix()
    (b.at / "src" / ("greet.py" if b.kind.name == "python" else "greet.sh")).chmod(0o755)
    b.perhaps_commit()


def link_inside(b: Bench) -> None:
    b.fix()
    (b.at / "docs/readme.md").symlink_to("../README.md")
    (b.at / "latest").symlink_to("docs")
    b.perhaps_commit()


def big_change(b: Bench) -> None:
    b.fix()
    for n in range(300):
        b.write(f"src/part{n % 10}/file{n}.txt", f"{n}\n" * 20)
    b.perhaps_commit()


def names_of_all_kinds(b: Bench) -> None:
    b.fix()
    for name in (
        "docs/Übersicht é.md",
        "docs/日本.md",
        "docs/with space.md",
        "docs/-dash.md",
        "docs/new\nline.md",
        'docs/"q".md',
    ):
        b.write(name)
    b.perhaps_commit()


def within_its_scope(b: Bench) -> None:
    b.scope = Scope(allow=("src/**", "*.md"), deny=("keys/",), files=3)
    b.fix()
    b.write("docs/guide.md", "# Guide\n")
    b.perhaps_commit()


def lock_file_with_leave(b: Bench) -> None:
    b.scope = Scope(protected=("uv.lock",))
    b.fix()
    b.write("uv.lock", "version = 2\n")
    b.perhaps_commit()


def ci_with_leave(b: Bench) -> None:
    b.scope = Scope(protected=("*",))
    b.fix()
    b.write(".github/workflows/ci.yml", "on: [push]\n")
    b.perhaps_commit()


def builds_things_that_git_ignores(b: Bench) -> None:
    b.fix()
    b.write("build/out.o")
    b.write("test.log")
    b.perhaps_commit()


def edits_gitignore(b: Bench) -> None:
    b.fix()
    b.write(".gitignore", b.read(".gitignore") + "dist/\n")
    b.write("dist/x")
    b.perhaps_commit()


def moves_the_code(b: Bench) -> None:
    new = "src/sums.py" if b.kind.name == "python" else "src/sums.sh"
    b.fix()
    shutil.copy(b.at / b.kind.code, b.at / new)
    b.write(b.kind.code, "from src.sums import add\n" if b.kind.name == "python" else ". ./src/sums.sh\n")
    b.perhaps_commit()


def reports_its_tools(b: Bench) -> None:
    b.fix()
    b.calls = b.dice.randint(1, 40)
    b.perhaps_commit()


def amends_and_rebases(b: Bench) -> None:
    b.fix()
    b.commit("wip")
    b.write("docs/guide.md", "# Guide\n\nAdds.\n")
    b.git("add", "-A")
    b.git("commit", "-q", "--amend", "-m", "Mend the sum")


def answer_to_a_question(b: Bench) -> None:
    _mended_before(b)
    b.task = TaskKind.RESEARCH
    (b.notes / "KNOWLEDGE.md").write_text("It subtracts because of a typo.\n")


def whitespace_and_line_ends(b: Bench) -> None:
    b.fix()
    (b.at / "docs/guide.md").write_bytes(b"# Guide\r\n\r\nCall add.  \r\n")
    b.perhaps_commit()


def new_program(b: Bench) -> None:
    """The check looks for it beside others, and nobody else has it."""
    b.kind = replace(b.kind, check=f"PATH=$PWD/bin:$PATH; sums 2 3 && {b.kind.check}")
    b.fix()
    b.write("bin/sums", "#!/bin/sh\necho $(($1 + $2))\n")
    (b.at / "bin/sums").chmod(0o755)
    b.perhaps_commit()


def new_module(b: Bench) -> None:
    b.kind = replace(b.kind, check=f"python3 -B -m sums 2 3 && {b.kind.check}")
    b.fix()
    b.write(b.one_of("sums.py", "sums/__main__.py"), "import sys\n\nprint(sum(map(int, sys.argv[1:])))\n")
    b.perhaps_commit()


def _mended_before(b: Bench) -> None:
    """The project had no bug to begin with: the check passes before and after."""
    b.fix()
    b.commit("Mended by somebody else")
    b.begins_here()


WAYS: Sequence[Way] = (
    code_fix, not_committed, half_committed, several_commits, merge_commit, on_another_branch, detached, docs_only,
    rename_only, rename_by_hand, generated_file, binary, submodule_bump, new_test_file, tests_added_to_a_file,
    tests_added_to_a_file_without_an_end, names_that_mean_something_elsewhere,
    tests_changed_with_leave, deletion_with_leave, mode_change, link_inside, big_change, names_of_all_kinds,
    within_its_scope, lock_file_with_leave, ci_with_leave, builds_things_that_git_ignores, edits_gitignore,
    moves_the_code, reports_its_tools, amends_and_rebases, answer_to_a_question, whitespace_and_line_ends,
    new_program, new_module,
)  # fmt: skip
