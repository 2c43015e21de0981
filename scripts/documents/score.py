#!/usr/bin/env python3
"""Scores longhand and other programs on the documents that fetch.py fetched, and prints tables in Markdown.

    scripts/documents/score.py --longhand target/release/longhand [--max-pages 30] [--kind KIND]... [--details]

Needs pdftotext, pandoc, and the packages of requirements.txt. Results of the other programs are kept beside the documents;
`--again` runs them again. truth.py says what the scores are measured against. All are percentages:

words      of the words that the document has, those that are in the text (as often as in the document)
order      of two words that follow each other in the document, how often they do so in the text
numbers    of the words with digits, those that are in the text unchanged
cells      of the cells of tables, those that stand in the column of their header
headings   of the headings, those that are alone on a line
pages      of the words of a page, those that the program gives as text of that page
"""

import argparse
import collections
import hashlib
import json
import pathlib
import re
import statistics
import sys
import tomllib

import fetch
import tools
import truth

COLUMNS = ("words", "order", "numbers", "cells", "headings", "pages")
TABLE_WINDOW = 400


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--longhand", default="target/release/longhand")
    parser.add_argument("--corpus", type=pathlib.Path, default=fetch.HERE.parents[1] / "target/corpus/documents")
    parser.add_argument("--kind", action="append", help="only documents of this kind")
    parser.add_argument("--tool", action="append", help="only this program")
    parser.add_argument("--again", action="store_true", help="run the other programs again")
    parser.add_argument("--max-pages", type=int, help="leave out PDFs with more pages, on which some programs take minutes")
    parser.add_argument("--details", action="store_true", help="one line for each document")
    arguments = parser.parse_args()
    scores: dict[tuple[str, str], list[dict]] = collections.defaultdict(list)
    for kind, file in documents(arguments.corpus):
        if arguments.kind and kind not in arguments.kind:
            continue
        results = Results(file, arguments)
        if arguments.max_pages and file.suffix == ".pdf" and len(results.of("pdftotext")["pages"]) > arguments.max_pages:
            continue
        try:
            known = truth.of(file, lambda name: results.of(name).get("pages", []))
        except Exception as error:  # The libraries that truth.py uses raise anything.
            print(f"left out, because what it contains is not known: {file}: {error}", file=sys.stderr)
            continue
        for tool in arguments.tool or tools.READS:
            if tools.reads(tool, file):
                result = results.of(tool)
                row = score(known, result) | {"kind": kind, "file": file, "seconds": result.get("seconds")}
                scores["PDF" if file.suffix == ".pdf" else "other", tool].append(row)
                if arguments.details:
                    print(f"{tool:12} {kind:10} {file.parent.name}/{file.name}: {line(row)} {result.get('error', '')}", flush=True)
    for group in ("PDF", "other"):
        print(f"\n| {group} | documents | failed | " + " | ".join(COLUMNS) + " | seconds |\n|---|" + "---:|" * (len(COLUMNS) + 3))
        for tool in arguments.tool or tools.READS:
            if rows := scores.get((group, tool)):
                print(f"| {tool} | {len(rows)} | {sum(row['seconds'] is None for row in rows)} | {means(rows)} |")
    fastest(scores)


def documents(corpus: pathlib.Path):
    for package in tomllib.loads((fetch.HERE / "corpus.toml").read_text())["package"]:
        for path, kind in package["documents"].items():
            if kind != "text" and (file := corpus / fetch.local_name(package, path)).exists():
                yield kind, file


class Results:
    """What the programs make of a document."""

    def __init__(self, file: pathlib.Path, arguments: argparse.Namespace) -> None:
        self.file, self.arguments = file, arguments
        self.found: dict[str, dict] = {}

    def of(self, tool: str) -> dict:
        if tool not in self.found:
            name = hashlib.sha256(self.file.read_bytes()).hexdigest()[:16]
            kept = self.arguments.corpus.parent / "results" / f"{tool}-{name}.json"
            if tool != "longhand" and kept.exists() and not self.arguments.again:
                self.found[tool] = json.loads(kept.read_text())
            else:
                self.found[tool] = tools.run(tool, self.file, self.arguments.longhand)
                kept.parent.mkdir(parents=True, exist_ok=True)
                kept.write_text(json.dumps(self.found[tool]))
        return self.found[tool]


def score(known: truth.Truth, result: dict) -> dict:
    pages = result.get("pages", [])
    text = "\n".join(pages)
    found = truth.words(text)
    counts = collections.Counter(found)
    numbers = collections.Counter({word: count for word, count in known.words.items() if truth.NUMBER.search(word)})
    row = {
        "words": share(known.words, counts),
        "order": share(known.pairs, truth.pairs(found)),
        "numbers": share(numbers, counts),
        "cells": best_cells(known.tables, result.get("tables", "")),
        "headings": headings(known.headings, text),
        "pages": None,
    }
    if len(known.pages) > 1:
        given = pages if result.get("has_pages") else []
        by_page = [collections.Counter(truth.words(page)) for page in given]
        by_page += [collections.Counter()] * (len(known.pages) - len(by_page))
        kept = sum((expected & page).total() for expected, page in zip(known.pages, by_page))
        row["pages"] = 100 * kept / max(sum(page.total() for page in known.pages), 1)
    return row


def share(expected: collections.Counter, found: collections.Counter) -> float | None:
    return 100 * (expected & found).total() / expected.total() if expected else None


def headings(expected: list[str], text: str) -> float | None:
    # Many styles print headings in capitals.
    plain = [" ".join(truth.words(heading)).casefold() for heading in expected]
    plain = [heading for heading in plain if heading]
    if not plain:
        return None
    # A number before a heading may be on the line or not.
    lines = collections.Counter()
    for line in text.splitlines():
        found = truth.words(line.casefold())
        lines[" ".join(found)] += 1
        while found and truth.NUMBER.search(found[0]):
            found = found[1:]
            lines[" ".join(found)] += 1
    return 100 * sum(lines[heading] > 0 for heading in plain) / len(plain)


def best_cells(tables: list[list[list[str]]], texts: str | list[str]) -> float | None:
    """The share of cells in their column, in that of a program's forms of tables that has most."""
    shares = [cells(tables, text) for text in ([texts] if isinstance(texts, str) else texts)]
    return max((share for share in shares if share is not None), default=None)


def cells(tables: list[list[list[str]]], text: str) -> float | None:
    if not tables:
        return None
    texts = text.splitlines()
    lines = [cells_of_line(line) for line in texts]
    right = total = place = 0
    for header, *rows in tables:
        # Several tables may have the same header: they are in the order of the document.
        start, columns = find_header(lines, header, place)
        start, columns = (start, columns) if columns else find_header(lines, header, 0)
        place = start + 1 if columns else place
        total += sum(bool(cell) for row in rows for cell in row)
        after = texts[start + 1 : start + 1 + 2 * (TABLE_WINDOW + 2 * len(rows))] if columns else []
        after = [cells_of_line(line, texts[start]) for line in after if line.strip()]
        at = 0
        for row in rows:
            best, best_at = 0, None
            for i in range(at, min(at + 60, len(after))):
                count = matches(after[i], row, columns)
                if count > best:
                    best, best_at = count, i
                if count == sum(bool(cell) for cell in row):
                    break
            right += best
            at = at if best_at is None else best_at + 1
    return 100 * right / total if total else None


def cells_of_line(line: str, header: str | None = None) -> list[tuple[tuple[float, float], str]]:
    """The cells of a line, each with its column: its number between tabs or bars, or else where it begins and ends. Below a header that
    begins with a bar, lines do so too; below another one, such a bar stands behind an empty cell. Where the header has tabs or bars, a
    line without them is a row whose first cell alone has text."""
    line, header = line.strip("\n"), line if header is None else header
    if "\t" in line:
        parts = line.split("\t")
    elif "|" in line:
        inner = line.strip()
        inner = inner.removeprefix("|").removesuffix("|") if header.strip().startswith("|") else inner
        parts = re.split(r"(?<!\\)\|", inner)
    elif "\t" in header or "|" in header:
        parts = [line]
    else:
        parts = []
    if parts:
        return [((float(i), float(i)), normal(cell)) for i, cell in enumerate(parts)]
    return [((match.start(), match.end()), normal(match.group())) for match in re.finditer(r"\S+(?: \S+)*", line)]


def normal(cell: str) -> str:
    cell = re.sub(r"<br ?/?>|\*\*|\\", " ", cell)
    number = re.fullmatch(r"-?\d+\.\d+", cell.strip())
    if number:
        return f"{float(cell):.8g}"
    return " ".join(truth.words(cell)) or cell.strip(" –—-_")


def find_header(lines, header: list[str], place: int):
    """The line of a header and where its names are, from left to right: two columns may have the same name."""
    wanted = [normal(cell) for cell in header]
    for i, line in enumerate(lines[place:], place):
        columns, rest = [], iter(line)
        for name in wanted:
            columns += [next((at for at, cell in rest if cell == name), None)]
        if None not in columns:
            return i, columns
    return 0, []


def distance(cell: tuple[float, float], column: tuple[float, float]) -> tuple[float, float]:
    """How far a cell is from the name of a column, as a person sees it: nothing if one is above the other; then their middles."""
    gap = max(column[0] - cell[1], cell[0] - column[1], 0)
    return gap, abs(sum(cell) - sum(column))


def matches(line, row: list[str], columns: list[tuple[float, float]]) -> int:
    """How many cells of a row are in a line under their header."""
    count = 0
    for i, cell in enumerate(row):
        if not cell or i >= len(columns):
            continue
        for place, text in line:
            nearest = min(range(len(columns)), key=lambda column: distance(place, columns[column]))
            if text == normal(cell) and nearest == i:
                count += 1
                break
    return count


def means(rows: list[dict]) -> str:
    def mean(name: str) -> str:
        values = [row[name] for row in rows if row[name] is not None]
        return f"{statistics.mean(values):.1f}" if values else "–"

    seconds = sum(row["seconds"] or 0 for row in rows)
    return " | ".join([*(mean(name) for name in COLUMNS), f"{seconds:.1f}"])


def line(row: dict) -> str:
    return " ".join(f"{name} {row[name]:.1f}" for name in COLUMNS if row[name] is not None)


def fastest(scores: dict) -> None:
    """How many times as long the others take, on the documents that both read."""
    for (group, tool), rows in scores.items():
        ours = {row["file"]: row["seconds"] for row in scores.get((group, "longhand"), [])}
        both = [(row["seconds"], ours[row["file"]]) for row in rows if row["seconds"] and ours.get(row["file"])]
        if tool != "longhand" and both:
            print(f"\n{group}: {tool} takes {sum(a for a, _ in both) / sum(b for _, b in both):.1f} times as long as longhand")


if __name__ == "__main__":
    main()
