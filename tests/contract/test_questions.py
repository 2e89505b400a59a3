"""The server that asks, as an agent CLI speaks to it; and the file, which others write too."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from fleet.core import FleetError, NotFound
from fleet.questions import file, remarks, server, thread

WITHIN = 20.0
WHEN = "2026-05-03 14:10"
Message = dict[str, Any]


class Client:
    """An agent CLI's side of the pipe."""

    def __init__(self, child: subprocess.Popen[bytes]) -> None:
        self.child = child

    def send(self, **message: object) -> None:
        self.write(json.dumps({"jsonrpc": "2.0"} | message).encode())

    def write(self, line: bytes) -> None:
        assert self.child.stdin is not None
        self.child.stdin.write(line + b"\n")
        self.child.stdin.flush()

    def hear(self) -> Message:
        assert self.child.stdout is not None
        heard: Message = json.loads(self.child.stdout.readline())
        assert heard.pop("jsonrpc") == "2.0"
        return heard

    def ask(self, number: int, prompt: object = "Which one?", **arguments: object) -> None:
        params = {"name": "ask_human", "arguments": {"prompt": prompt} | arguments}
        self.send(id=number, method="tools/call", params=params)

    def told(self) -> tuple[int, str, bool]:
        heard = self.hear()
        return heard["id"], heard["result"]["content"][0]["text"], heard["result"]["isError"]


@contextmanager
def asking(artifacts: Path, wait: float = WITHIN, after: int = 0) -> Iterator[Client]:
    argv = [sys.executable, "-I", "-S", str(server.PROGRAM), str(artifacts), str(wait), str(after)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        client = Client(child)
        try:
            yield client
            assert child.stdin is not None
            child.stdin.close()
            assert child.wait(WITHIN) == 0
            assert child.stderr is not None
            assert child.stderr.read() == b""
        finally:
            child.kill()


@pytest.fixture
def artifacts(tmp_path: Path) -> Path:
    made = tmp_path / "t1" / "artifacts"
    made.mkdir(parents=True)
    return made


def written(artifacts: Path, client: Client, number: int = 1) -> thread.Question:
    """The question, once it stands in the file: whoever is heard after it has written it."""
    client.send(id="there?", method="ping")
    assert client.hear() == {"id": "there?", "result": {}}
    return file.read(artifacts)[number - 1]


# ---- the protocol


@pytest.mark.parametrize(
    ("wanted", "spoken"),
    [("2025-06-18", "2025-06-18"), ("2024-11-05", "2024-11-05"), ("1999-01-01", "2025-11-25"), (None, "2025-11-25")],
)
def test_it_introduces_itself_in_a_version_that_both_know(artifacts: Path, wanted: str | None, spoken: str) -> None:
    with asking(artifacts) as client:
        client.send(id=1, method="initialize", params={"protocolVersion": wanted, "capabilities": {}})
        result = client.hear()["result"]
        assert (result["protocolVersion"], result["capabilities"]) == (spoken, {"tools": {}})
        assert result["serverInfo"]["name"] == "fleet_questions"
        client.send(method="notifications/initialized")
        client.send(id=2, method="tools/list")
        (tool,) = client.hear()["result"]["tools"]
        assert (tool["name"], tool["inputSchema"]["required"]) == ("ask_human", ["prompt"])


def test_what_it_does_not_understand_is_refused_and_ends_nothing(artifacts: Path) -> None:
    with asking(artifacts) as client:
        for line, code in ((b"{not json", -32700), (b"[" * 100_000, -32700), (b"3", -32600), (b'["x"]', -32600)):
            client.write(line)
            heard = client.hear()
            assert (heard["id"], heard["error"]["code"]) == (None, code)
        client.write(b"")
        client.send(method="notifications/strange")
        client.send(id=7, result={})
        client.send(id="a", method="resources/list")
        assert client.hear()["error"]["code"] == -32601
        client.send(id="b", method="tools/call", params={"name": "rm"})
        assert client.hear()["error"]["code"] == -32602
        for prompt in ("", "  ", 3, None):
            client.ask(1, prompt)
            assert client.told() == (1, "The prompt is missing: what do you want to know?", True)
        client.write(b'[{"jsonrpc": "2.0", "id": 1, "method": "ping"}, {"jsonrpc": "2.0", "id": 2, "method": "ping"}]')
        assert [client.hear()["id"], client.hear()["id"]] == [1, 2]
    assert not (artifacts / "Q&A.md").exists()


def test_it_waits_for_the_answer_and_hears_the_agent_meanwhile(artifacts: Path) -> None:
    with asking(artifacts) as client:
        client.ask(1, "Which one?", options=["a", 3, "b"])
        question = written(artifacts, client)
        assert (question.text, question.options) == ("Which one?", ("a", "b"))
        client.ask(2, "And then?")
        second = written(artifacts, client, 2)
        file.answer(artifacts, second, "Home.", WHEN)
        assert client.told() == (2, "Home.", False)
        file.answer(artifacts, question, "The \udcff one.", WHEN)
        assert client.told() == (1, "The ? one.", False)
    assert [one.read for one in file.read(artifacts)] == [True, True]


def test_an_answer_by_hand_is_an_answer(artifacts: Path) -> None:
    with asking(artifacts) as client:
        client.ask(1)
        written(artifacts, client)
        with (artifacts / "Q&A.md").open("ab") as text:
            text.write(b"\n## A: 2026-05-03 14:10\n\nAs you \xff like.\n")
        assert client.told() == (1, "As you ? like.", False)


def test_nobody_answers(artifacts: Path) -> None:
    with asking(artifacts, wait=0.1) as client:
        client.ask(1)
        number, said, failed = client.told()
        assert (number, failed) == (1, False)
        assert said.startswith("Nobody has answered question 1 yet. It is kept.")
        client.ask(2)
        client.told()
    (question,) = file.read(artifacts)  # asked again in the same words, it is the same question
    assert (question.is_open, question.read) == (True, False)
    with asking(artifacts, wait=0.1, after=1) as client:
        client.ask(1)
        assert "question 2" in client.told()[1]


def test_a_call_that_is_cancelled_is_not_answered(artifacts: Path) -> None:
    with asking(artifacts) as client:
        client.ask(1)
        question = written(artifacts, client)
        client.send(method="notifications/cancelled", params={"requestId": 1})
        written(artifacts, client)
        file.answer(artifacts, question, "Too late.", WHEN)
        client.ask(2, "Another?")
        file.answer(artifacts, written(artifacts, client, 2), "Yes.", WHEN)
        assert client.told() == (2, "Yes.", False)


def test_who_asks_for_progress_hears_that_it_still_waits(artifacts: Path) -> None:
    with asking(artifacts) as client:
        params = {"name": "ask_human", "arguments": {"prompt": "Which?"}, "_meta": {"progressToken": "p"}}
        client.send(id=1, method="tools/call", params=params)
        heard = client.hear()
        assert (heard["method"], heard["params"]["progressToken"]) == ("notifications/progress", "p")
        file.answer(artifacts, file.read(artifacts)[0], "This.", WHEN)
        assert client.told() == (1, "This.", False)


def test_what_stands_in_the_files_place_is_told_to_the_agent(artifacts: Path) -> None:
    os.mkfifo(artifacts / "Q&A.md")
    with asking(artifacts) as client:
        client.ask(1)
        number, said, failed = client.told()
        assert (number, failed) == (1, True)
        assert "is not a plain file, and is not read" in said


def test_it_ends_when_its_agent_is_gone(artifacts: Path) -> None:
    with asking(artifacts) as client:
        client.ask(1)
        written(artifacts, client)
    assert client.child.returncode == 0


def test_it_loads_next_to_nothing(artifacts: Path) -> None:
    """One runs beside every agent: what it imports, fifty of them hold in memory."""
    source = str(server.PROGRAM.parents[2])
    program = f"import sys; sys.path.insert(0, {source!r}); import fleet.questions.server"
    heavy = "{'asyncio', 'click', 'dataclasses', 'h11', 'inspect', 'logging', 'msgspec', 'subprocess', 'yaml'}"
    argv = [sys.executable, "-I", "-S", "-c", f"{program}; print(sorted({heavy} & sys.modules.keys()))"]
    assert subprocess.run(argv, capture_output=True, check=True).stdout == b"[]\n"


# ---- the file


def test_of_many_who_answer_at_once_one_wins_and_all_know_which(artifacts: Path) -> None:
    question = file.ask(artifacts, "Which?")

    def give(number: int) -> tuple[bool, str | None]:
        try:
            return True, file.answer(artifacts, question, f"answer {number}", WHEN).answer
        except file.Answered as late:
            return False, late.question.answer

    with ThreadPoolExecutor(8) as pool:
        given = list(pool.map(give, range(8)))
    (winner,) = [answer for won, answer in given if won]
    assert {answer for _, answer in given} == {winner}
    assert [one.answer for one in file.read(artifacts)] == [winner]


def test_what_others_wrote_stays_byte_for_byte(artifacts: Path) -> None:
    mine = b"\xff\xfe\r\nnotes\r\n## Q: caf\xe9?\r\n\x00 more"
    (artifacts / "Q&A.md").write_bytes(mine)
    (question,) = file.read(artifacts)
    file.answer(artifacts, question, "Yes.", WHEN)
    assert (artifacts / "Q&A.md").read_bytes() == mine + b"\n\n## A: 2026-05-03 14:10\n\nYes.\n"
    assert sorted(os.listdir(artifacts)) == ["Q&A.md"]


def test_a_question_that_is_gone_cannot_be_answered(artifacts: Path) -> None:
    question = file.ask(artifacts, "Which?")
    (artifacts / "Q&A.md").write_text("## Q: Another?\n")
    with pytest.raises(NotFound, match="question 1 is not in the file any more"):
        file.answer(artifacts, question, "Yes.", WHEN)


def test_a_file_is_not_made_so_large_that_nobody_reads_it(artifacts: Path) -> None:
    question = file.ask(artifacts, "Which?")
    with pytest.raises(FleetError, match="would be larger than 1024 KiB"):
        file.answer(artifacts, question, "x" * file.LARGEST, WHEN)
    assert file.read(artifacts) == [question]


def test_a_directory_that_leads_elsewhere_is_not_used(artifacts: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    artifacts.rename(elsewhere)
    artifacts.symlink_to(elsewhere)
    with pytest.raises(FleetError, match="leads somewhere else"):
        file.ask(artifacts, "Which?")
    assert os.listdir(elsewhere) == []


def test_an_answer_closes_the_code_block_that_its_question_left_open(artifacts: Path) -> None:
    (artifacts / "Q&A.md").write_text("## Q: open fence?\n```sh\nnever closed\n")
    (asked,) = file.read(artifacts)
    given = file.answer(artifacts, asked, "ok then", WHEN)
    assert (given.number, given.answer) == (1, "ok then")
    assert [one.is_open for one in file.read(artifacts)] == [False]


# ---- what is said unasked


def test_a_remark_keeps_its_number_whichever_is_taken_back(tmp_path: Path) -> None:
    assert [remarks.add(tmp_path, "t1", text) for text in ("one", "two", "three")] == [1, 2, 3]
    assert remarks.add(tmp_path, "t2", "another's") == 1
    assert remarks.drop(tmp_path, "t1", 2)
    assert remarks.read(tmp_path, "t1", after=1) == ["three"]
    assert remarks.add(tmp_path, "t1", "four") == 4
    assert remarks.read(tmp_path, "t1", after=1, to=3) == ["three"]
    assert remarks.drop(tmp_path, "t1", 4)
    assert remarks.read(tmp_path, "t1") == ["one", "three"]


def test_what_an_agent_is_going_to_be_told_cannot_be_taken_back(tmp_path: Path) -> None:
    assert remarks.last(tmp_path, "t1") == 0
    remarks.add(tmp_path, "t1", "one")
    assert remarks.last(tmp_path, "t1") == 1
    late = remarks.add(tmp_path, "t1", "two")
    assert (remarks.drop(tmp_path, "t1", 1), remarks.drop(tmp_path, "t1", late)) == (False, True)
    assert remarks.last(tmp_path, "t1") == 1
    assert remarks.add(tmp_path, "t1", "three") == 2
    assert remarks.read(tmp_path, "t1", after=1) == ["three"]
