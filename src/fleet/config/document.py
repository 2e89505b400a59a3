"""A YAML document as plain values that remember where each of them stands in the file."""

from __future__ import annotations

import re

import yaml

from fleet.config.problems import Document, Path, Place, Problem, dotted

type_of_merge = "tag:yaml.org,2002:merge"
MAX_NODES = 200_000  # aliases expand; a small file must not become a huge document
MAX_DEPTH = 40
MAX_NESTING = 2000
TOO_LARGE = "the document is too large or too deep once expanded"


def parse(text: str) -> Document:
    """Read one YAML document. Duplicate keys, keys that are not text and over-large documents become problems."""
    document = Document()
    if _is_too_deep(text):
        document.problems.append(Problem(Place(1, 1), (), TOO_LARGE))
        return document
    loader = _Loader(text)
    try:
        root = loader.get_single_node()
        if root is not None:
            document.value = _Builder(document, loader).build(root, (), 0)
    except yaml.MarkedYAMLError as problem:
        mark = problem.problem_mark or problem.context_mark
        place = Place(mark.line + 1, mark.column + 1) if mark else Place(1, 1)
        document.problems.append(Problem(place, (), f"not YAML: {problem.problem or problem.context}"))
    except yaml.YAMLError as problem:
        document.problems.append(Problem(Place(1, 1), (), f"not YAML: {str(problem).splitlines()[0]}"))
    except (_TooLarge, RecursionError):
        document.problems.append(Problem(Place(1, 1), (), TOO_LARGE))
    finally:
        loader.dispose()
    return document


def _is_too_deep(text: str) -> bool:
    """Whether composing the text could exhaust the C stack, which ends the program without a word."""
    if any(len(line) - len(line.lstrip(" -?:\t")) > MAX_NESTING for line in text.splitlines()):
        return True
    if text.count("[") + text.count("{") <= MAX_NESTING:
        return False
    depth = 0
    for bracket in re.finditer(r"[\[\]{}]", text):
        depth = max(0, depth + (1 if bracket[0] in "[{" else -1))
        if depth > MAX_NESTING:
            return True
    return False


class _TooLarge(Exception):
    pass


class _Builder:
    def __init__(self, document: Document, loader: yaml.SafeLoader) -> None:
        self._document = document
        self._loader = loader
        self._built = 0

    def build(self, node: yaml.Node, path: Path, depth: int) -> object:
        self._built += 1
        if self._built > MAX_NODES or depth > MAX_DEPTH:
            raise _TooLarge
        self._document.places.setdefault(path, _place(node))
        match node:
            case yaml.MappingNode():
                return self._mapping(node, path, depth)
            case yaml.SequenceNode():
                return [self.build(item, (*path, n), depth + 1) for n, item in enumerate(node.value)]
            case _:
                return self._scalar(node, path)

    def _mapping(self, node: yaml.MappingNode, path: Path, depth: int) -> dict[str, object]:
        built: dict[str, object] = {}
        merged: dict[str, object] = {}
        for key_node, value_node in node.value:
            if key_node.tag == type_of_merge:
                merged = self._merge(value_node, path, depth) | merged
                continue
            key = self._key(key_node, path)
            if key is None:
                continue
            if key in built:
                message = f"{dotted((*path, key))} is given twice"
                self._document.problems.append(Problem(_place(key_node), (*path, key), message))
                continue
            self._document.places[(*path, key)] = _place(value_node if value_node.value != "" else key_node)
            built[key] = self.build(value_node, (*path, key), depth + 1)
        return merged | built

    def _merge(self, node: yaml.Node, path: Path, depth: int) -> dict[str, object]:
        sources = node.value if isinstance(node, yaml.SequenceNode) else [node]
        merged: dict[str, object] = {}
        for source in reversed(sources):
            value = self.build(source, path, depth + 1)
            if isinstance(value, dict):
                merged |= value
            else:
                self._document.problems.append(Problem(_place(source), path, "'<<' merges mappings only"))
        return merged

    def _key(self, node: yaml.Node, path: Path) -> str | None:
        """The key as text: a number or a date is taken as it is written, anything deeper is refused."""
        if isinstance(node, yaml.ScalarNode):
            return str(node.value)
        self._document.problems.append(Problem(_place(node), path, "a key must be plain text"))
        return None

    def _scalar(self, node: yaml.Node, path: Path) -> object:
        try:
            return self._loader.construct_object(node, deep=True)
        except (yaml.YAMLError, ValueError) as problem:
            reason = problem.problem if isinstance(problem, yaml.MarkedYAMLError) else str(problem)
            self._document.problems.append(Problem(_place(node), path, f"{dotted(path)}: {reason}"))
            return None


def _place(node: yaml.Node) -> Place:
    return Place(node.start_mark.line + 1, node.start_mark.column + 1)


_Loader: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
