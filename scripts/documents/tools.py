"""The programs that are compared. Each gives the text of a document by pages, and the text in which its tables are best.

Python libraries run in a process of their own, `tools.py TOOL FILE`, which prints the result as JSON. Their seconds are those of
the conversion, without the start of Python and the imports; those of other programs include their start.
"""

import contextlib
import io
import json
import pathlib
import subprocess
import sys
import time

LIMIT_SECONDS = 180
PDF = {".pdf"}
# What each tool reads.
READS = {
    "pdftotext": PDF,
    "pandoc": {".docx", ".odt", ".epub", ".html", ".ipynb", ".csv"},
    "pypdf": PDF,
    "pdfplumber": PDF,
    "pymupdf4llm": PDF,
    "markitdown": PDF | {".docx", ".pptx", ".xlsx", ".epub", ".html", ".ipynb", ".csv"},
    "longhand": None,
}
LIBRARIES = {"pypdf", "pdfplumber", "pymupdf4llm", "markitdown", "pdfium", "mupdf", "pdf_oxide"}
# pdf_oxide is a crate of Rust with a package of Python. It and the engines of truth.py are scored where `--tool` names them.


def reads(tool: str, file: pathlib.Path) -> bool:
    kinds = READS.get(tool, PDF)
    return kinds is None or file.suffix.lower() in kinds


def run(tool: str, file: pathlib.Path, longhand: str) -> dict:
    """The result: `pages` and `tables` (texts; of several forms of tables the better one counts), `has_pages`, `seconds`, or `error`."""
    if tool in LIBRARIES:
        command = [sys.executable, __file__, tool, str(file)]
        try:
            done = subprocess.run(command, capture_output=True, timeout=LIMIT_SECONDS)
            return json.loads(done.stdout) if done.returncode == 0 else failed(done.stderr)
        except (subprocess.TimeoutExpired, ValueError) as error:
            return failed(str(error).encode())
    commands = {
        "pdftotext": ["pdftotext", str(file), "-"],
        "pandoc": ["pandoc", "--to=gfm", "--wrap=none", str(file)],
        "longhand": [longhand, "text", "--json", str(file)],
    }
    start = time.perf_counter()
    try:
        done = subprocess.run(commands[tool], capture_output=True, timeout=LIMIT_SECONDS)
    except subprocess.TimeoutExpired as error:
        return failed(str(error).encode())
    seconds = time.perf_counter() - start
    if done.returncode != 0:
        return failed(done.stderr)
    text = done.stdout.decode("utf-8", "replace")
    pages, tables = [text], text
    if tool == "pdftotext":
        pages = text.split("\f")[:-1]
        layout = subprocess.run(["pdftotext", "-layout", str(file), "-"], capture_output=True)
        tables = layout.stdout.decode("utf-8", "replace")
    if tool == "longhand":
        pages, tables = longhand_pages(text)
    return {"pages": pages, "tables": tables, "has_pages": len(pages) > 1, "seconds": seconds}


def longhand_pages(reply: str) -> tuple[list[str], str]:
    """The text by pages, from the parts that `longhand text --json` prints. Their places are bytes of the text."""
    (document,) = json.loads(reply)
    text = document["text"].encode()
    pages: dict[int, bytes] = {}
    for part in document.get("parts", []):
        if page := part["page"]:
            pages[page] = pages.get(page, b"") + text[part["start"] : part["end"]]
    last = max(pages, default=0)
    return [pages.get(page, b"").decode() for page in range(1, last + 1)] or [document["text"]], document["text"]


def failed(message: bytes) -> dict:
    return {"error": message.decode("utf-8", "replace").strip()[-300:] or "no reply"}


def convert(tool: str, file: str) -> dict:
    """Runs a library in this process."""
    if tool == "pypdf":
        import pypdf

        start = time.perf_counter()
        pages = [page.extract_text() for page in pypdf.PdfReader(file).pages]
        seconds = time.perf_counter() - start
        tables = "\n".join(page.extract_text(extraction_mode="layout") for page in pypdf.PdfReader(file).pages)
    elif tool == "pdfplumber":
        import pdfplumber

        start = time.perf_counter()
        with pdfplumber.open(file) as pdf:
            pages = [page.extract_text() for page in pdf.pages]
        seconds = time.perf_counter() - start
        with pdfplumber.open(file) as pdf:
            rows = [row for page in pdf.pages for table in page.extract_tables() for row in table]
            # It finds tables with lines. The others are in the text as it is laid out.
            laid_out = "\n".join(page.extract_text(layout=True) for page in pdf.pages)
        tables = ["\n".join("\t".join((cell or "").replace("\n", " ") for cell in row) for row in rows), laid_out]
    elif tool == "pymupdf4llm":
        import pymupdf4llm

        start = time.perf_counter()
        pages = [page["text"] for page in pymupdf4llm.to_markdown(file, page_chunks=True)]
        seconds = time.perf_counter() - start
        tables = "\n".join(pages)
    elif tool == "markitdown":
        import markitdown

        converter = markitdown.MarkItDown()
        start = time.perf_counter()
        pages = converter.convert(file).text_content.split("\f")
        seconds = time.perf_counter() - start
        tables = "\n".join(pages)
    elif tool == "pdf_oxide":
        import pdf_oxide

        start = time.perf_counter()
        document = pdf_oxide.PdfDocument(file)
        pages = [document.extract_text(page) for page in range(document.page_count())]
        seconds = time.perf_counter() - start
        tables = "\n".join(document.to_markdown(page) for page in range(len(pages)))
    elif tool == "pdfium":
        import pypdfium2

        start = time.perf_counter()
        pages = [page.get_textpage().get_text_range() for page in pypdfium2.PdfDocument(file)]
        seconds, tables = time.perf_counter() - start, ""
    elif tool == "mupdf":
        import pymupdf

        start = time.perf_counter()
        pages = [page.get_text() for page in pymupdf.open(file)]
        seconds, tables = time.perf_counter() - start, ""
    else:
        sys.exit(f"unknown tool {tool}")
    return {"pages": pages, "tables": tables, "has_pages": len(pages) > 1, "seconds": seconds}


if __name__ == "__main__":
    with contextlib.redirect_stdout(io.StringIO()):
        result = convert(sys.argv[1], sys.argv[2])
    print(json.dumps(result))
