"""What an agent says of its work, and what speaks for or against each of it. Pure: words are data, never believed."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence

from fleet.core.proof import Claim, Heard
from fleet.core.text import clean
from fleet.evidence.receipt import Check, Receipt, Result

MOST, LONGEST = 20, 300
SENTENCE = re.compile(r"\n+|(?<=[.!?])\s+(?=[A-Z`\"'*0-9-])")
MARKS = re.compile(r"^[\s>*#-]+|\*\*")
SPAN = re.compile(r"`([^`\n]{1,200})`")
# What stands before a claim in its sentence and makes it none: denials, plans, wishes, conditions.
NOT_SAID = re.compile(
    r"\b(?:not|never|unable|cannot|can|could|would|should|will|may|might|must|if|once|when|until|before|please|"
    r"need(?:s|ed)? to|to be|let me|next|going to|try(?:ing)?|without|no|make sure|ensure|so that|failed to)\b[^.;:]*$|"
    r"\w(?:n't|'ll)\b[^.;:]*$",
    re.IGNORECASE,
)
PASS = re.compile(
    r"\b(?:tests?|test suite|suite|specs|checks|build|ci|lint(?:er)?)\b[^.!?\n]{0,40}?"
    r"\b(?:pass(?:es|ed|ing)?|succeed(?:s|ed)?|green)\b|\b\d+ (?:tests? )?pass(?:ed|ing)\b|\bpassing tests\b",
    re.IGNORECASE,
)
FAILS = re.compile(r"\b(?:[1-9]\d*|some|tests?) (?:fail(?:s|ed|ing|ures?)?|errors?)\b", re.IGNORECASE)
COMMITTED = re.compile(r"\bcommitted\b|\b(?:made|created) (?:a|one|the|\d+) commits?\b", re.IGNORECASE)
FIXED = re.compile(r"\b(?:fixed|resolved|solved)\b", re.IGNORECASE)
DONE = re.compile(
    r"^(?:all )?done\b|\b(?:task|work|everything|implementation|feature|change|it)(?: is|'s)? (?:now )?"
    r"(?:all )?(?:done|complete[d]?|finished|implemented)\b|\bsuccessfully (?:completed|implemented)\b",
    re.IGNORECASE,
)
RAN = re.compile(r"\b(?:re-?)?(?:ran|executed|running|run)\b", re.IGNORECASE)
RAN_TESTS = re.compile(r"\b(?:ran|executed|run) (?:all |the |all the |full |unit )*tests?\b", re.IGNORECASE)
TOUCHED = re.compile(
    r"\b(?:created|added|wrote|written|updated|modified|changed|edited|deleted|removed|renamed|implemented|fixed)\b",
    re.IGNORECASE,
)
PATH = re.compile(r"(?<![\w/.:@-])(?:[\w@.+-]+/)*[\w@+-][\w@.+-]*\.[A-Za-z]\w{0,9}(?![\w/(-])|(?:[\w.+-]+/)+[\w.+-]+")
ENDS = {
    "c", "cc", "cfg", "conf", "cpp", "cs", "css", "csv", "dart", "ex", "go", "gradle", "h", "hpp", "html", "ini",
    "java", "js", "json", "jsx", "kt", "lock", "lua", "md", "mjs", "php", "pl", "proto", "ps1", "py", "pyi", "rb", "rs",
    "rst", "scala", "scss", "sh", "sql", "swift", "toml", "ts", "tsx", "txt", "vue", "xml", "yaml", "yml", "zig",
}  # fmt: skip
PROGRAMS = (
    "ansible|bash|bazel|black|bundle|bun|cargo|cmake|composer|ctest|deno|docker|dotnet|eslint|git|go|gradle|jest|"
    "just|make|mix|mocha|mvn|mypy|ninja|node|nox|npm|npx|php|phpunit|pip|pnpm|poetry|pre-commit|prettier|pyright|"
    "pytest|python3?|rake|rspec|ruff|rustc|sh|swift|terraform|tox|tsc|uv|vitest|yarn"
)
COMMAND = re.compile(rf"(?:{PROGRAMS})(?:\s|\Z)|\./[\w./-]+")
BARE = re.compile(
    rf"\b(?:ran|executed)\s+((?:{PROGRAMS})(?:\s+(?:test|check|build|run|lint|-\S+|\.))*)\b", re.IGNORECASE
)
TESTING = re.compile(
    r"\b(?:py\.?test|unittest|tests?|tox|nox|jest|vitest|mocha|rspec|phpunit|ctest|nextest|specs?|check|make|just|"
    r"gradlew?|mvn|bazel|rake|behave|karma|cypress|playwright|ginkgo)\b",
    re.IGNORECASE,
)
BUILDING = re.compile(r"\b(?:build|lint|ci|qa|verify|validate|clippy|eslint|mypy|pyright|ruff|tsc)\b", re.IGNORECASE)
SHELLS = re.compile(r"bash|shell|exec|command|terminal|\Arun", re.IGNORECASE)
HARMLESS = re.compile(r"read|write|edit|glob|grep|search|\Als\Z|list|todo|patch|file|fetch|plan|think", re.IGNORECASE)
Weigh = Callable[[Receipt], tuple[bool | None, str]]


def is_shell(tool: str) -> bool:
    """Whether a tool of this name runs commands, as agents name theirs."""
    return SHELLS.search(tool) is not None


def claims(receipt: Receipt) -> list[Claim]:
    """What the agent's last words claim, weighed against what fleet found; each sentence once for each kind."""
    found: dict[tuple[str, str], Claim] = {}
    for kind, text, weigh in _said(receipt.heard.words):
        holds, evidence = weigh(receipt)
        found.setdefault((kind, text), Claim(text, holds, clean(evidence, LONGEST)))
        if len(found) == MOST:
            break
    return list(found.values())


def claimed_only(heard: Heard) -> tuple[str, ...]:
    """The commands that it says it ran and that no tool call shows; nothing where its calls are not known."""
    if heard.calls is None:
        return ()
    said = (command for sentence in sentences(heard.words) for command in _commands(sentence))
    return tuple(dict.fromkeys(one for one in said if not _ran(one, heard.commands)))[:MOST]


def sentences(words: str) -> list[str]:
    """What was said, sentence by sentence; what stands in a block of code is no sentence."""
    prose = re.sub(r"```.*?(?:```|\Z)", "\n", words, flags=re.DOTALL)
    parts = (MARKS.sub("", part).strip() for part in SENTENCE.split(prose))
    return [clean(part, LONGEST) for part in parts if part]


def _said(words: str) -> Iterator[tuple[str, str, Weigh]]:
    for sentence in sentences(words):
        if _claims(PASS, sentence) and not FAILS.search(sentence):
            yield "pass", sentence, _passes
        if _claims(COMMITTED, sentence):
            yield "commit", sentence, _committed
        for command in _commands(sentence):
            yield f"ran {command}", sentence, _command(command)
        if _claims(RAN_TESTS, sentence):
            yield "pass", sentence, _tested
        for path in _paths(sentence):
            yield f"file {path}", sentence, _file(path)
        if _claims(FIXED, sentence) or _claims(DONE, sentence):
            yield "done", sentence, _finished


def _claims(kind: re.Pattern[str], sentence: str) -> bool:
    prose = SPAN.sub(_in_words, sentence)
    found = kind.search(prose)
    return found is not None and NOT_SAID.search(prose[: found.end()]) is None


def _in_words(span: re.Match[str]) -> str:
    """What is quoted is not said; but that a command passes says that its tests do."""
    after = span.string[span.end() : span.end() + 20]
    return "tests" if TESTING.search(span[1]) and re.match(r" (?:now |all |is )?(?:pass|green)", after) else "it"


def _commands(sentence: str) -> list[str]:
    """The commands that a sentence says were run."""
    ran = RAN.search(sentence)
    if ran is None or NOT_SAID.search(sentence[: ran.start()]) is not None or _is_advice(sentence, ran):
        return []
    spans = [clean(span.strip(), 200) for span in SPAN.findall(sentence[ran.end() :]) if COMMAND.match(span.strip())]
    bare = [clean(span.strip(), 200) for span in BARE.findall(SPAN.sub("", sentence))]
    return [*spans, *bare]


def _is_advice(sentence: str, ran: re.Match[str]) -> bool:
    """`Run pytest to see it` and `running x shows y` tell somebody else to do it; `I run` and `we ran` tell of it."""
    word = ran[0].lower()
    return word in ("run", "running") and re.search(r"\b(?:I|we|after|by)\s+\Z", sentence[: ran.start()]) is None


def _ran(command: str, seen: Sequence[str]) -> bool:
    wanted = _words(command)
    return any(wanted and _within(wanted, _words(one)) for one in seen)


def _words(command: str) -> list[str]:
    """The words of a command line, those of a `sh -c` with them; quotes do not count."""
    return re.findall(r"[^\s'\"`();&|]+", command)


def _within(wanted: list[str], seen: list[str]) -> bool:
    """Whether the words stand together in what was seen; a program may be called by its path."""
    names = [os.path.basename(word) or word for word in seen]
    first = os.path.basename(wanted[0]) or wanted[0]
    rest = wanted[1:]
    return any(name == first and seen[at + 1 : at + 1 + len(rest)] == rest for at, name in enumerate(names))


def _paths(sentence: str) -> list[str]:
    """The files that a sentence says were made, changed or removed."""
    touched = TOUCHED.search(sentence)
    if touched is None or NOT_SAID.search(sentence[: touched.start()]) is not None or "://" in sentence:
        return []
    said = SPAN.sub(lambda span: "" if COMMAND.match(span[1].strip()) else span[0], sentence[touched.end() :])
    found = (path.strip("./ ,;") for path in PATH.findall(said))
    return [path for path in dict.fromkeys(found) if _is_file(path)][:MOST]


def _is_file(path: str) -> bool:
    """`config.timeout` and `e.g` are no files; `a/b` may be anything, and only what has an ending is taken for one."""
    return path.rpartition(".")[2].lower() in ENDS and not path[0].isdigit()


# ---- what speaks for each, or against it


def _passes(receipt: Receipt) -> tuple[bool | None, str]:
    checked = _checked(receipt.checks)
    if checked is None:
        return _tested(receipt)
    holds, evidence = checked
    if not holds:
        return checked
    tests = _checked([one for one in receipt.checks if _is_test(one)])
    return tests if tests is not None else (None, f"{evidence}; it is no test, as far as its name says")


def _is_test(check: Check) -> bool:
    return bool(check.counts.get("passed")) or any(one.search(check.command) for one in (TESTING, BUILDING))


def _checked(checks: Sequence[Check]) -> tuple[bool, str] | None:
    """What the checks say that fleet ran itself."""
    known = [one for one in checks if not one.lost]
    if not known:
        return None
    failed = next((one for one in known if not one.passed), None)
    told = failed or known[0]
    return failed is None, f"fleet ran `{told.command}` itself: {told.cause}"


def _tested(receipt: Receipt) -> tuple[bool | None, str]:
    """Without a check of ours: whether it ran anything that looks like a test."""
    heard = receipt.heard
    test = next((one for one in heard.commands if TESTING.search(one)), None)
    if test is not None:
        return None, f"it ran `{test}`; fleet was given no check of its own"
    if heard.calls is None:
        return None, "what it ran is not known, and fleet was given no check of its own"
    if heard.calls == 0:
        return False, "it called no tool at all"
    others = [tool for tool in heard.tools if not is_shell(tool) and not HARMLESS.search(tool)]
    if others:
        return None, f"none of its commands looks like a test; what its tool {others[0]} ran is not known"
    return False, f"none of its {heard.calls} tool calls ran anything that looks like a test"


def _committed(receipt: Receipt) -> tuple[bool | None, str]:
    result = receipt.result
    if result.commits:
        last = result.commits[0]
        return True, f"{_count(len(result.commits), 'commit')}, the last one {last.id[:12]}: {last.subject}"
    if result.head is None:
        return None, "git could not say"
    return False, "there is no new commit"


def _command(command: str) -> Weigh:
    def weigh(receipt: Receipt) -> tuple[bool | None, str]:
        heard = receipt.heard
        if _ran(command, heard.commands):
            return True, f"a tool call shows `{command}`"
        if heard.calls is None:
            return None, "what it ran is not known"
        return False, f"no tool call shows `{command}`"

    return weigh


def _file(path: str) -> Weigh:
    def weigh(receipt: Receipt) -> tuple[bool | None, str]:
        touched = _touched(receipt.result)
        if any(one == path or one.endswith(f"/{path}") or path.endswith(f"/{one}") for one in touched):
            return True, f"{path} is among what changed"
        if not _is_known(receipt.result):
            return None, "not everything that changed is known"
        return False, f"{path} is not among what changed"

    return weigh


def _touched(result: Result) -> list[str]:
    changed = [path for one in result.changes for path in (one.path, one.old_path) if path]
    return [*changed, *(result.uncommitted or ()), *(result.artifacts or ()), *result.gone]


def _is_known(result: Result) -> bool:
    lists = (result.changes, result.uncommitted, result.artifacts)
    return all(one is not None and len(one) < 200 for one in lists)


def _finished(receipt: Receipt) -> tuple[bool | None, str]:
    checked = _checked(receipt.checks)
    if checked is not None:
        return checked
    match receipt.result.effect:
        case False:
            return False, "nothing changed"
        case None:
            return None, "whether anything changed is not known"
        case _:
            return (
                None,
                f"{_count(len(_touched(receipt.result)), 'path')} changed; fleet was given nothing to check it with",
            )


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
