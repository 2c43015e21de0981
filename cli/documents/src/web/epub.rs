//! EPUB: the chapters of a book in the order in which they are read. Books say it in several ways, and many say it
//! wrongly: the spine first, then the tables of contents, then the list of files, then the names of the files.

use std::collections::{HashMap, HashSet};

use unicode_normalization::UnicodeNormalization;

use super::contents::{self, Reference};
use super::html;
use crate::counts::Counts;
use crate::marks::{self, MARK};
use crate::package::xml::{self, Element, Piece};
use crate::package::{Archive, natural_order, percent_decode, resolve};
use crate::plain::decode;
use crate::selection::Chooser;
use crate::writer::Writer;
use crate::{Converted, Note, Options, Problem, Unit};

const CONTAINER: &str = "META-INF/container.xml";
const ENCRYPTION: &str = "META-INF/encryption.xml";
/// A heading has so many lines or fewer.
const HEADING_LINES: usize = 4;
/// What stands for a file is looked for in so many steps.
const MAX_FALLBACKS: usize = 8;
/// Files that hold chapters, by their extensions.
const PAGES: &[&str] = &["html", "htm", "xhtml", "xht", "xml"];

/// Converts a book.
///
/// # Errors
/// It is damaged or encrypted, has too much text, or not the chapters that are chosen.
pub(crate) fn convert(bytes: &[u8], options: &Options) -> Result<Converted, Problem> {
    let max_bytes = options.limits.bytes;
    let mut archive = Archive::new(bytes)?;
    let entries = Entries::new(&archive);
    let encrypted = encrypted_entries(&mut archive, &entries)?;
    let (mut text, mut counts) = (String::new(), Counts::default());
    let mut chooser = Chooser::new(options.selection.as_ref(), Unit::Chapter);
    let mut sheets = HashMap::new();
    for Chapter { entry: chapter, names, content } in chapters(&mut archive, &entries, &mut counts)? {
        if !chooser.takes_next() {
            continue;
        }
        if encrypted.contains(&chapter) {
            return Err(Problem::CopyProtected);
        }
        let page = match archive.bytes(&chapter) {
            Ok(bytes) if content == Content::Text => decode::text(&bytes),
            Ok(bytes) => html::decode(&bytes),
            Err(problem @ (Problem::Unpacked { .. } | Problem::Encrypted)) => return Err(problem),
            Err(problem) => Err(problem),
        };
        let Ok(page) = page else {
            counts.missing_chapters.push(&chapter);
            continue;
        };
        let mut linked = |base: &str, href: &str| {
            let base = if base.is_empty() { &chapter } else { base };
            let name = entries.find(folder(base), href)?;
            let text = sheets.entry(name.clone()).or_insert_with(|| archive.text(&name).ok());
            text.clone().map(|text| (name, text))
        };
        let ids = names.iter().enumerate().filter(|(_, (id, _))| !id.is_empty());
        let mut missing = ids.map(|(number, (id, _))| (id.clone(), number)).collect();
        let (file, places) = match content {
            Content::Text => (page.text, Vec::new()),
            Content::Page | Content::Drawing => {
                let (mut writer, pictures) = (Writer::default(), counts.pictures);
                html::write(&page.text, true, 0, &mut missing, &mut writer, &mut counts, &mut linked);
                counts.unfilled_rows += writer.unfilled_rows();
                let (places, file) = (writer.take_places(), writer.finish());
                let is_picture = content == Content::Drawing && file.is_empty();
                counts.pictures += usize::from(is_picture && counts.pictures == pictures);
                (file, places)
            }
        };
        let missing = missing.into_values().collect();
        append_sections(&mut text, &file, &names, &places, missing, &mut counts);
        if text.len() as u64 > max_bytes {
            return Err(Problem::TooLong { limit: max_bytes });
        }
    }
    let notes = chooser.note()?.into_iter().chain(counts.notes()).collect::<Vec<_>>();
    let missing = notes.iter().find(|note| matches!(note, Note::MissingChapters { .. }));
    match missing.filter(|_| text.trim().is_empty()) {
        Some(missing) => Err(Problem::Damaged { what: missing.to_string() }),
        None => Ok(Converted { text, notes, ..Converted::default() }),
    }
}

/// Names in the tables of contents, each with the id of the element that it leads to. That of the file has none.
type Names = Vec<(String, String)>;

/// A file with a chapter or several ones, and their names.
struct Chapter {
    entry: String,
    names: Names,
    content: Content,
}

/// What a file of a book is, if it may have text. Only the order of reading has drawings and texts: others are pictures of
/// chapters, and notes of whoever made the book.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Content {
    Page,
    /// SVG.
    Drawing,
    Text,
}

/// Appends the text of a file. At each of the places that the tables of contents name, a section begins. Names of places that
/// the file does not have, `missing`, are counted, unless they are lines of it.
fn append_sections(
    text: &mut String,
    file: &str,
    names: &Names,
    places: &[(usize, usize)],
    mut missing: Vec<usize>,
    counts: &mut Counts,
) {
    let found: HashSet<usize> = places.iter().map(|(_, number)| *number).collect();
    // A name without text at its place leads to the file, too, if the file begins with it or no name has such text.
    let first = file.trim_start_matches('\n').lines().next().map(words).unwrap_or_default();
    let name = |number: usize| names[number].1.as_str();
    let mut own: Vec<&str> = match names.iter().position(|(id, _)| id.is_empty()) {
        Some(whole) => vec![name(whole)],
        None => {
            let mut others = (0..names.len()).filter(|number| !found.contains(number)).map(name);
            let begins = others.clone().find(|name| words(name) == first);
            begins.or_else(|| others.next().filter(|_| found.is_empty())).into_iter().collect()
        }
    };
    if !missing.is_empty() {
        missing.sort_unstable();
        let lost: Vec<&str> = missing.into_iter().map(name).filter(|name| !own.contains(name)).collect();
        let not_lines = without_lines(file, lost.iter().map(|name| words(name)).collect());
        let lost = lost.into_iter().filter(|name| not_lines.contains(&words(name)));
        lost.for_each(|name| counts.lost_headings.push(name));
    }
    let mut start = 0;
    for (end, number) in places.iter().copied().chain([(file.len(), names.len())]) {
        let section = file.get(start..end).unwrap_or_default().trim_matches('\n');
        if !section.is_empty() {
            let begins = |name: &&&str| section.lines().next().is_some_and(|line| words(line) == words(name));
            // Of names of one place the last is the innermost.
            append(text, section, own.iter().find(begins).or(own.last()).copied());
            (start, own) = (end, Vec::new());
        }
        own.extend(names.get(number).map(|(_, name)| name.as_str()));
    }
}

/// Those of these texts that are no lines of a file, and no lines of it that follow each other.
fn without_lines(file: &str, mut texts: HashSet<String>) -> HashSet<String> {
    let longest = texts.iter().map(String::len).max().unwrap_or(0);
    let lines = marks::without_headings(file);
    let lines: Vec<String> = lines.lines().map(words).filter(|line| !line.is_empty()).collect();
    for start in 0..lines.len() {
        let mut text = String::new();
        for line in lines[start..].iter().take(HEADING_LINES) {
            text.extend([if text.is_empty() { "" } else { " " }, line]);
            if text.len() > longest {
                break;
            }
            texts.remove(&text);
        }
    }
    texts
}

/// A text in small letters, with single spaces.
fn words(text: &str) -> String {
    text.to_lowercase().split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Appends the text of a section. Where it does not begin with a heading, its name is one. Without a name, its beginning
/// is in no section: it is not in that of the one before.
fn append(text: &mut String, section: &str, name: Option<&str>) {
    let is_name = |line: &str| name.is_some_and(|name| words(name) == words(line));
    let heading =
        |line: &str| line.strip_prefix(MARK).map(|line| line.trim_start_matches(['#', ' ']).to_owned());
    let has_name = || section.lines().filter_map(heading).any(|line| is_name(&line));
    let begin = match name {
        _ if section.starts_with(MARK) => String::new(),
        _ if section.lines().next().is_some_and(is_name) => marks::unwritten_heading(1),
        Some(name) if !has_name() => format!("{}{name}\n\n", marks::heading(1)),
        _ => String::new(),
    };
    if !text.is_empty() {
        let is_in_no_section = begin.is_empty() && !section.starts_with(MARK) && text.contains(MARK);
        // The line is empty, and so is the title of the section that begins in it.
        text.push_str(&if is_in_no_section { marks::unwritten_heading(1) + "\n" } else { "\n".to_owned() });
    }
    text.extend([&begin, section, "\n"]);
}

/// The entries of a book by their names, as references mean them.
struct Entries {
    names: HashSet<String>,
    /// By their names in composed characters and small letters.
    alike: HashMap<String, String>,
    /// By the last parts of such names; `None` if several entries have it.
    last: HashMap<String, Option<String>>,
}

impl Entries {
    fn new(archive: &Archive) -> Entries {
        let names: HashSet<String> = archive.names().map(str::to_owned).collect();
        let mut entries = Entries { names, alike: HashMap::new(), last: HashMap::new() };
        for name in &entries.names {
            let alike = plain(name);
            let last = alike.rsplit('/').next().unwrap_or_default().to_owned();
            entries.last.entry(last).and_modify(|known| *known = None).or_insert(Some(name.clone()));
            entries.alike.insert(alike, name.clone());
        }
        entries
    }

    /// The entry that a reference means in a folder.
    fn find(&self, folder: &str, href: &str) -> Option<String> {
        let names = [
            resolve(folder, href),
            resolve(folder, &percent_decode(href)),
            percent_decode(&resolve(folder, href)),
        ];
        let exact = names.iter().find(|name| self.names.contains(*name)).cloned();
        let alike = || names.iter().find_map(|name| self.alike.get(&plain(name)).cloned());
        let last = || {
            let name = plain(&names[1]);
            self.last.get(name.rsplit('/').next().filter(|last| !last.is_empty())?).cloned().flatten()
        };
        exact.or_else(alike).or_else(last)
    }
}

/// A name in composed characters and small letters.
fn plain(name: &str) -> String {
    name.nfc().flat_map(char::to_lowercase).collect()
}

/// The folder of an entry.
fn folder(name: &str) -> &str {
    name.rsplit_once('/').map_or("", |(folder, _)| folder)
}

fn is_page(name: &str) -> bool {
    let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension).to_ascii_lowercase();
    PAGES.contains(&extension.as_str())
}

/// A file in the description of a book.
#[derive(Default)]
struct Item {
    href: String,
    media_type: String,
    fallback: Option<String>,
    is_contents: bool,
}

impl Item {
    fn content(&self) -> Option<Content> {
        let kind = self.media_type.to_ascii_lowercase();
        let is_page = || is_page(self.href.split('#').next().unwrap_or_default());
        match kind.as_str() {
            _ if ["html", "oeb1-document", "dtbook"].iter().any(|page| kind.contains(page)) => {
                Some(Content::Page)
            }
            "image/svg+xml" => Some(Content::Drawing),
            _ if kind.starts_with("image/") || kind.contains("ncx") => None,
            _ if is_page() => Some(Content::Page),
            "text/plain" => Some(Content::Text),
            _ => None,
        }
    }

    fn is_page(&self) -> bool {
        self.content() == Some(Content::Page)
    }
}

/// The description of a book.
#[derive(Default)]
struct Package {
    folder: String,
    items: HashMap<String, Item>,
    /// The ids of the files, in the order in which they are listed.
    order: Vec<String>,
    /// The ids of the chapters, in the order in which they are read.
    spine: Vec<String>,
}

impl Package {
    /// Reads the entry with the description. What comes before damage counts.
    fn read(archive: &mut Archive, name: &str) -> Result<Package, Problem> {
        let mut package = Package { folder: folder(name).to_owned(), ..Package::default() };
        let read = xml::read(name, &archive.text(name)?, |piece| {
            if let Piece::Start(element) = piece {
                package.element(&element);
            }
            Ok(())
        });
        match read {
            Err(problem) if package.items.is_empty() => Err(problem),
            _ => Ok(package),
        }
    }

    fn element(&mut self, element: &Element) {
        let text = |name: &str| element.attribute(name).unwrap_or_default();
        match element.name.as_str() {
            "item" => {
                let id = element.attribute("id").unwrap_or_else(|| text("href"));
                let item = Item {
                    href: text("href"),
                    media_type: text("media-type"),
                    fallback: element.attribute("fallback"),
                    is_contents: text("properties").split_whitespace().any(|property| property == "nav"),
                };
                if self.items.insert(id.clone(), item).is_none() {
                    self.order.push(id);
                }
            }
            "itemref" => self.spine.extend(element.attribute("idref")),
            _ => {}
        }
    }

    /// The file of an id that is a chapter, and what it is: the first page of itself and what stands for it, or else the first
    /// other text.
    fn chapter(&self, id: &str) -> Option<(&Item, Content)> {
        let next = |item: &&Item| self.items.get(item.fallback.as_ref()?);
        // A chain of fallbacks may be a ring.
        let chain: Vec<&Item> = std::iter::successors(self.items.get(id), next).take(MAX_FALLBACKS).collect();
        let page = chain.iter().find(|item| item.is_page());
        let item = *page.or_else(|| chain.iter().find(|item| item.content().is_some()))?;
        Some((item, item.content()?))
    }
}

/// The entries with the chapters, in the order in which they are read.
fn chapters(archive: &mut Archive, entries: &Entries, counts: &mut Counts) -> Result<Vec<Chapter>, Problem> {
    let Some(package) = package(archive, entries) else {
        let mut pages: Vec<String> = archive
            .names()
            .filter(|name| is_page(name) && !name.starts_with("META-INF/"))
            .map(str::to_owned)
            .collect();
        pages.sort_by(|a, b| natural_order(a, b));
        return match pages.is_empty() {
            true => {
                Err(Problem::Damaged { what: format!("{CONTAINER} names no book, and there are no pages") })
            }
            false => Ok(pages
                .into_iter()
                .map(|entry| Chapter { entry, names: Names::new(), content: Content::Page })
                .collect()),
        };
    };
    let mut found = Found::default();
    let mut contents_of = HashMap::new();
    for id in &package.spine {
        match package.chapter(id) {
            Some((item, content)) => {
                let entry = entries.find(&package.folder, &item.href);
                contents_of.extend(entry.clone().map(|entry| (entry, content)));
                found.push(entry, &item.href, counts);
            }
            None if package.items.contains_key(id) => counts.pictures += 1,
            None => found.push(entries.find(&package.folder, id).filter(|name| is_page(name)), id, counts),
        }
    }
    let has_spine = !found.chapters.is_empty();
    let (mut names, mut known) = (HashMap::<String, Names>::new(), HashSet::new());
    for (folder, Reference { href, name }) in contents(archive, entries, &package) {
        let entry = entries.find(&folder, &href);
        let id = href.split_once('#').map(|(_, id)| percent_decode(id)).unwrap_or_default();
        if let (Some(entry), Some(name)) = (&entry, name)
            && known.insert((entry.clone(), id.clone()))
        {
            names.entry(entry.clone()).or_default().push((id, name));
        }
        // Tables of contents may name what is no page.
        if entry.as_ref().is_none_or(|entry| is_page(entry) || !has_spine) {
            found.push(entry, &href, counts);
        }
    }
    for item in package.order.iter().filter_map(|id| package.items.get(id)).filter(|item| item.is_page()) {
        let entry = entries.find(&package.folder, &item.href);
        match has_spine {
            false => found.push(entry, &item.href, counts),
            true if item.is_contents => {}
            true => {
                counts.unordered_chapters += usize::from(entry.is_some_and(|entry| found.known.insert(entry)))
            }
        }
    }
    let chapter = |entry: String| Chapter {
        names: names.remove(&entry).unwrap_or_default(),
        content: contents_of.get(&entry).copied().unwrap_or(Content::Page),
        entry,
    };
    Ok(found.chapters.into_iter().map(chapter).collect())
}

/// Chapters that are found. Each is read once.
#[derive(Default)]
struct Found {
    chapters: Vec<String>,
    known: HashSet<String>,
    missing: HashSet<String>,
}

impl Found {
    fn push(&mut self, entry: Option<String>, href: &str, counts: &mut Counts) {
        match entry {
            Some(entry) => {
                if self.known.insert(entry.clone()) {
                    self.chapters.push(entry);
                }
            }
            None => {
                let name = percent_decode(href.split('#').next().unwrap_or_default());
                if !name.is_empty() && self.missing.insert(name.clone()) {
                    counts.missing_chapters.push(&name);
                }
            }
        }
    }
}

/// The description of the book, wherever it is.
fn package(archive: &mut Archive, entries: &Entries) -> Option<Package> {
    let mut names = Vec::new();
    if let Ok(container) = archive.text(CONTAINER) {
        // What comes before damage counts.
        let _ = xml::read(CONTAINER, &container, |piece| {
            if let Piece::Start(element) = piece
                && element.name == "rootfile"
            {
                names.extend(element.attribute("full-path").and_then(|path| entries.find("", &path)));
            }
            Ok(())
        });
    }
    let mut others: Vec<String> = archive
        .names()
        .filter(|name| name.to_ascii_lowercase().ends_with(".opf"))
        .map(str::to_owned)
        .collect();
    others.sort();
    names.extend(others);
    names
        .iter()
        .filter_map(|name| Package::read(archive, name).ok())
        .find(|package| !package.items.is_empty())
}

/// What the tables of contents lead to: references, each with the folder that it is in.
fn contents(archive: &mut Archive, entries: &Entries, package: &Package) -> Vec<(String, Reference)> {
    let is_contents =
        |item: &&Item| item.is_contents || item.media_type.contains("dtbncx") || item.href.ends_with(".ncx");
    let items = package.order.iter().filter_map(|id| package.items.get(id)).filter(is_contents);
    let mut names: Vec<String> = items.filter_map(|item| entries.find(&package.folder, &item.href)).collect();
    // A table of contents that no list has.
    names.extend(archive.names().filter(|name| name.ends_with(".ncx")).map(str::to_owned).min());
    names.dedup();
    let mut references = Vec::new();
    for name in names {
        let folder = folder(&name).to_owned();
        let Ok(text) = archive.text(&name) else { continue };
        references.extend(
            contents::references(&name, &text).into_iter().map(|reference| (folder.clone(), reference)),
        );
    }
    references
}

/// Entries that are encrypted. Fonts may be, by an algorithm that only hides them.
fn encrypted_entries(archive: &mut Archive, entries: &Entries) -> Result<HashSet<String>, Problem> {
    let mut encrypted = HashSet::new();
    if archive.has(ENCRYPTION) {
        xml::read(ENCRYPTION, &archive.text(ENCRYPTION)?, |piece| {
            if let Piece::Start(element) = piece
                && element.name == "CipherReference"
            {
                encrypted.extend(element.attribute("URI").and_then(|uri| entries.find("", &uri)));
            }
            Ok(())
        })?;
    }
    Ok(encrypted)
}
