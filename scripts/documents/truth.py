"""What a document contains, found without the programs that are compared, as far as that is possible.

- A document with a plain text of the same name beside it: that text.
- Another PDF: the words that at least two of three engines read (poppler, PDFium, MuPDF), page by page. Of the programs compared,
  pdftotext is poppler and pymupdf4llm is MuPDF, so that this truth favours them. What no reader sees is left out: words where
  MuPDF draws a plain area, such as white text and what a box covers. A raised text, as MuPDF marks it, is a word of its own:
  10⁶ is not 106. Words that mix letters from the left with letters from the right are mistakes of two engines, and left out.
- Other documents: what their XML, JSON or lines contain, read here in the most direct way.

Headings are the bookmarks of a PDF, and what is marked as a heading elsewhere. Tables are those with a complete first row; for PDFs
they are written by hand in tables.toml.
"""

import collections
import csv
import email
import email.policy
import json
import pathlib
import re
import tomllib
import unicodedata
import zipfile

import lxml.etree
import lxml.html

HERE = pathlib.Path(__file__).resolve().parent
# Numbers with so many decimals are compared without their last digits, which programs round in several ways.
LONG_DECIMAL = re.compile(r"\d+\.\d{8,}")
WORD = re.compile(r"[^\W_]+(?:[.,'’][^\W_]+)*")
NUMBER = re.compile(r"\d")
CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff]")
# A letter from the left beside one from the right.
MIXED = re.compile(r"[A-Za-z][\u0590-\u08ff]|[\u0590-\u08ff][A-Za-z]")
# Dots per inch of the drawn pages, and how much the greys of a plain area differ.
DPI = 100
PLAIN = 6
OFFICE = "{urn:oasis:names:tc:opendocument:xmlns:office:1.0}"


def words(text: str) -> list[str]:
    """Words and numbers. Forms of letters become letters; words divided at the end of a line are joined; each Chinese or Japanese
    sign is a word, because no spaces divide them. Marks of direction and points of vowels are left out."""
    text = unicodedata.normalize("NFKC", text)
    # PDFium writes U+FFFE for a hyphen at the end of a line.
    text = text.replace("\ufffe", "").replace("’", "'")
    text = LONG_DECIMAL.sub(lambda number: f"{float(number.group()):.8g}", text)
    text = re.sub(r"(?<=\w)_(?=\w)", "", text)
    text = re.sub(r"(?<=[^\W\d_])[-\u00ad\u2010][ \r]*\n[ \r\n]*(?=[a-zß-ÿ])", "", text).replace("\u00ad", "")
    text = "".join(" " + c + " " if CJK.match(c) else c for c in text if unicodedata.category(c) not in ("Cf", "Mn"))
    return WORD.findall(text)


def pairs(of: list[str]) -> collections.Counter:
    return collections.Counter(zip(of, of[1:]))


class Truth:
    """Words, neighbours, headings and tables of a document."""

    def __init__(self) -> None:
        self.words: collections.Counter = collections.Counter()
        self.pairs: collections.Counter = collections.Counter()
        self.pages: list[collections.Counter] = []
        self.headings: list[str] = []
        self.tables: list[list[list[str]]] = []

    def set_text(self, text: str) -> "Truth":
        found = words(text)
        self.words, self.pairs = collections.Counter(found), pairs(found)
        return self


def of(file: pathlib.Path, engine) -> Truth:
    """The truth of a document. `engine(name)` gives the pages of a PDF as an engine reads them."""
    truth = READERS[file.suffix.lower()](file) if file.suffix.lower() != ".pdf" else of_pdf(file, engine)
    text = file.with_suffix(".txt")
    if text.exists():
        truth.set_text(text.read_text("utf-8", "replace"))
    tables = tomllib.loads((HERE / "tables.toml").read_text()).get("table", [])
    truth.tables += [table["rows"] for table in tables if table["document"] == f"{file.parent.name}/{file.name}"]
    return truth


def of_pdf(file: pathlib.Path, engine) -> Truth:
    truth = Truth()
    by_engine = [engine(name) for name in ("pdftotext", "pdfium", "mupdf")]
    raised, hidden = raised_texts(file), hidden_words(file)
    for page in range(max(map(len, by_engine))):
        texts = [apart(words(pages[page]), raised.get(page, {})) if page < len(pages) else [] for pages in by_engine]
        gone = hidden.get(page, collections.Counter())
        gone = gone + collections.Counter(word for text in texts for word in text if MIXED.search(word))
        found = second_largest([collections.Counter(text) for text in texts]) - gone
        truth.pages.append(found)
        truth.words += found
        seen = [[word for word in text if found[word] or not gone[word]] for text in texts]
        truth.pairs += second_largest([pairs(text) for text in seen])
    import pymupdf

    truth.headings = [title for _, title, _ in pymupdf.open(file).get_toc()]
    return truth


def hidden_words(file: pathlib.Path) -> dict[int, collections.Counter]:
    """For each page the words that cannot be seen: where they stand, the drawn page is plain. The words of a layer of text over a
    scanned page can be seen in its picture."""
    import pymupdf

    hidden: dict[int, collections.Counter] = {}
    for number, page in enumerate(pymupdf.open(file)):
        drawn = page.get_pixmap(dpi=DPI, colorspace=pymupdf.csGRAY, alpha=False)
        for x0, y0, x1, y1, text, *_ in page.get_text("words"):
            box = (pymupdf.Rect(x0, y0, x1, y1) * page.rotation_matrix * DPI / 72).round() & drawn.irect
            rows = [drawn.samples[y * drawn.stride + box.x0 : y * drawn.stride + box.x1] for y in range(box.y0, box.y1)]
            greys = b"".join(rows)
            if not greys or max(greys) - min(greys) <= PLAIN:
                hidden.setdefault(number, collections.Counter()).update(words(text))
    return hidden


def raised_texts(file: pathlib.Path) -> dict[int, dict[str, list[str]]]:
    """For each page the words that begin or end with raised text, without the space that belongs between the two, and their parts."""
    import pymupdf

    found: dict[int, dict[str, list[str]]] = {}
    for number, page in enumerate(pymupdf.open(file)):
        for block in page.get_text("dict")["blocks"]:
            for line in block.get("lines", []):
                for before, span in zip(line["spans"], line["spans"][1:]):
                    first, second = words(before["text"]), words(span["text"])
                    is_raised = (before["flags"] ^ span["flags"]) & pymupdf.TEXT_FONT_SUPERSCRIPT
                    touches = before["text"][-1:].isalnum() and span["text"][:1].isalnum()
                    if is_raised and touches and first and second:
                        found.setdefault(number, {})[first[-1] + second[0]] = [first[-1], second[0]]
    return found


def apart(of: list[str], raised: dict[str, list[str]]) -> list[str]:
    return [part for word in of for part in raised.get(word, [word])]


def second_largest(counters: list[collections.Counter]) -> collections.Counter:
    """What at least two of three have, as often as both have it."""
    every = set().union(*counters)
    return collections.Counter({key: sorted(counter[key] for counter in counters)[-2] for key in every}) + collections.Counter()


def part(file: pathlib.Path, name: str) -> lxml.etree._Element | None:
    with zipfile.ZipFile(file) as package:
        return lxml.etree.fromstring(package.read(name)) if name in package.namelist() else None


def local(element) -> str:
    return lxml.etree.QName(element).localname if isinstance(element.tag, str) else ""


def text_of(element, text=("t",), breaks=("p", "br", "tab", "cr", "h", "line-break"), leave_out=()) -> str:
    """The text of the elements `text` in an element, or all text if there are none of these names."""
    found = []

    def walk(node) -> None:
        name = local(node)
        if name in leave_out:
            return
        if name in breaks:
            found.append("\n")
        if node.text and (not text or name in text):
            found.append(node.text)
        if name == "s":
            found.append(" ")
        for child in node:
            walk(child)
            if not text and child.tail:
                found.append(child.tail)
        if name in breaks:
            found.append("\n")

    walk(element)
    return "".join(found)


def of_docx(file: pathlib.Path) -> Truth:
    truth, texts = Truth(), []
    for name in ("document", "footnotes", "endnotes", "comments"):
        root = part(file, f"word/{name}.xml")
        if root is None:
            continue
        texts.append(text_of(root, leave_out=("Fallback", "delText", "del")))
        for paragraph in root.iter("{*}p"):
            style = paragraph.find("{*}pPr/{*}pStyle")
            if style is not None and re.match(r"(?i)heading|title", next(iter(style.attrib.values()))):
                truth.headings.append(text_of(paragraph).strip())
        for table in root.iter("{*}tbl"):
            if table.find(".//{*}gridSpan") is None and table.find(".//{*}vMerge") is None:
                rows = [[text_of(cell).strip() for cell in row.iterfind("{*}tc")] for row in table.iterfind("{*}tr")]
                add_table(truth, rows)
    return truth.set_text("\n".join(texts))


def of_open_document(file: pathlib.Path) -> Truth:
    truth = Truth()
    body = part(file, "content.xml").find(OFFICE + "body")
    truth.headings = [text_of(heading, text=()) for heading in body.iter("{*}h")]
    for table in body.iter("{*}table"):
        rows = [[text_of(cell, text=()).strip() for cell in row.iterfind("{*}table-cell")] for row in table.iter("{*}table-row")]
        add_table(truth, rows)
    return truth.set_text(text_of(body, text=(), leave_out=("tracked-changes", "forms", "desc", "title", "annotation")))


def of_pptx(file: pathlib.Path) -> Truth:
    with zipfile.ZipFile(file) as package:
        names = sorted(name for name in package.namelist() if re.fullmatch(r"ppt/(slides|notesSlides)/[^/]*\.xml", name))
    truth = Truth()
    texts = []
    for name in names:
        root = part(file, name)
        texts.append(text_of(root, leave_out=("Fallback", "fld")))
        for table in root.iter("{*}tbl"):
            if not any(cell.get("gridSpan") or cell.get("rowSpan") for cell in table.iter("{*}tc")):
                rows = [[text_of(cell).strip() for cell in row.iterfind("{*}tc")] for row in table.iterfind("{*}tr")]
                add_table(truth, rows)
    return truth.set_text("\n".join(texts))


def of_xlsx(file: pathlib.Path) -> Truth:
    import openpyxl

    truth, lines = Truth(), []
    for sheet in openpyxl.load_workbook(file, data_only=True).worksheets:
        if sheet.sheet_state != "visible":
            continue
        rows = [[plain(cell.value, cell.number_format) for cell in row] for row in sheet.iter_rows()]
        lines += ["\t".join(row) for row in rows]
        add_table(truth, rows)
    return truth.set_text("\n".join(lines))


def plain(value, form: str) -> str:
    """A cell as a person sees it. Dates, and numbers with a format of their own, are left out, because formats decide about them."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if value is None or hasattr(value, "year") or hasattr(value, "minute") or (is_number and form not in ("General", "@")):
        return ""
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, float):
        return repr(int(value)) if value.is_integer() else repr(value)
    return str(value).strip()


def of_csv(file: pathlib.Path) -> Truth:
    truth = Truth()
    text = file.read_text("utf-8", "replace")
    add_table(truth, list(csv.reader(text.splitlines())))
    return truth.set_text(text.replace(",", "\t"))


def of_html(file: pathlib.Path) -> Truth:
    return html(Truth(), lxml.html.fromstring(file.read_bytes()))


def html(truth: Truth, root) -> Truth:
    hidden = "//*[contains(translate(@style, ' ', ''), 'display:none')]"
    for element in root.xpath("//script|//style|//head|//template|//noscript|" + hidden):
        element.drop_tree()
    truth.headings += [" ".join(heading.text_content().split()) for heading in root.xpath("//h1|//h2|//h3|//h4|//h5|//h6")]
    for table in root.xpath("//table[not(.//table)][not(.//*[@colspan>1 or @rowspan>1])]"):
        add_table(truth, [[" ".join(cell.text_content().split()) for cell in row.xpath("./td|./th")] for row in table.iter("tr")])
    for element in root.xpath("//p|//br|//div|//li|//td|//th|//tr|//h1|//h2|//h3|//h4|//dt|//dd|//pre"):
        element.tail = "\n" + (element.tail or "")
    found = words(root.text_content())
    truth.words += collections.Counter(found)
    truth.pairs += pairs(found)
    return truth


def of_epub(file: pathlib.Path) -> Truth:
    truth = Truth()
    with zipfile.ZipFile(file) as book:
        package = lxml.etree.fromstring(book.read("META-INF/container.xml")).find(".//{*}rootfile").get("full-path")
        root = lxml.etree.fromstring(book.read(package))
        items = {item.get("id"): item for item in root.iter("{*}item")}
        for reference in root.iter("{*}itemref"):
            item = items[reference.get("idref")]
            if "nav" not in (item.get("properties") or "").split():
                name = str(pathlib.PurePosixPath(package).parent / item.get("href"))
                html(truth, lxml.html.fromstring(book.read(name)))
    return truth


def of_notebook(file: pathlib.Path) -> Truth:
    book = json.loads(file.read_text("utf-8"))
    cells = book.get("cells") or [cell for sheet in book.get("worksheets", []) for cell in sheet["cells"]]
    texts = []
    for cell in cells:
        texts.append("".join(cell.get("source") or cell.get("input") or ""))
    return Truth().set_text("\n".join(texts))


def of_subtitles(file: pathlib.Path) -> Truth:
    content = file.read_bytes()
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = content.decode("windows-1252")
    lines = [re.sub(r"<[^>]*>|\{[^}]*\}", "", line) for line in text.splitlines()]
    kept = [line for line in lines if "-->" not in line and not line.strip().isdigit() and not line.startswith(("WEBVTT", "NOTE"))]
    return Truth().set_text("\n".join(kept))


def of_mail(file: pathlib.Path) -> Truth:
    message = email.message_from_bytes(file.read_bytes(), policy=email.policy.default)
    body = message.get_body(("plain", "html"))
    text = body.get_content() if body else ""
    if body and body.get_content_type() == "text/html":
        return html(Truth(), lxml.html.fromstring(text))
    return Truth().set_text(text)


def add_table(truth: Truth, rows: list[list[str]]) -> None:
    """Adds a table whose first row names all columns."""
    rows = [[" ".join(cell.split()) for cell in row] for row in rows if any(row)]
    if len(rows) > 1 and len(rows[0]) > 1 and all(rows[0]) and len(set(rows[0])) == len(rows[0]):
        truth.tables.append(rows)


READERS = {
    ".docx": of_docx,
    ".odt": of_open_document,
    ".ods": of_open_document,
    ".odp": of_open_document,
    ".pptx": of_pptx,
    ".xlsx": of_xlsx,
    ".csv": of_csv,
    ".html": of_html,
    ".epub": of_epub,
    ".ipynb": of_notebook,
    ".srt": of_subtitles,
    ".vtt": of_subtitles,
    ".eml": of_mail,
}
