//! HTML as text. The tokens of the page are read once from the beginning to the end. So a page costs no more than its
//! length, however deep it is.

use encoding_rs::Encoding;
use html5gum::emitters::callback::{CallbackEmitter, CallbackEvent};
use html5gum::{Span, Tokenizer};

use crate::writer::Writer;
use crate::{Converted, Problem, decode};

/// Where pages declare their encoding: within so many bytes.
const DECLARATION_BYTES: usize = 1024;

/// Converts a page in any encoding.
///
/// # Errors
/// The page is not text, or longer than `max_bytes`.
pub(crate) fn convert(bytes: &[u8], max_bytes: u64) -> Result<Converted, Problem> {
    let Converted { text, notes, .. } = decode::declared(bytes, declared_encoding(bytes))?;
    let is_xml = text.trim_start_matches('\u{feff}').trim_start().starts_with("<?xml");
    let mut writer = Writer::default();
    let title = write(&text, is_xml, &mut writer);
    let mut text = writer.finish();
    if let Some(title) = title {
        text.insert_str(0, &format!("# {title}\n\n"));
    }
    match text.len() as u64 > max_bytes {
        true => Err(Problem::TooLong { limit: max_bytes }),
        false => Ok(Converted { text, notes, ..Converted::default() }),
    }
}

/// Writes a page. In XML, scripts and titles are elements as all others. Returns the title if the page has no
/// heading of the first level.
pub(crate) fn write(page: &str, is_xml: bool, writer: &mut Writer) -> Option<String> {
    let mut page_writer = PageWriter::new(writer);
    let on_event = |event: CallbackEvent<'_>, _: Span<()>| -> Option<()> {
        page_writer.event(event, is_xml);
        None
    };
    let mut emitter = CallbackEmitter::new(on_event);
    emitter.naively_switch_states(!is_xml);
    // The callback returns nothing, and text in memory cannot fail to be read.
    for Ok(()) in Tokenizer::new_with_emitter(page, emitter) {}
    page_writer.title()
}

/// The encoding in `<meta charset=…>` or `<?xml encoding=…?>`.
fn declared_encoding(bytes: &[u8]) -> Option<&'static Encoding> {
    let head = String::from_utf8_lossy(&bytes[..bytes.len().min(DECLARATION_BYTES)]).to_ascii_lowercase();
    let (_, after) = head.split_once("charset=").or_else(|| head.split_once("encoding="))?;
    let label = after.trim_start_matches(['"', '\'', ' ']);
    let end = label.find(|c: char| !c.is_ascii_alphanumeric() && !"-_:".contains(c))?;
    Encoding::for_label(&label.as_bytes()[..end])
}

/// The state between the tokens of a page.
struct PageWriter<'a> {
    writer: &'a mut Writer,
    /// The tag that begins.
    tag: Vec<u8>,
    /// The element whose content is left out.
    skipped: Option<Vec<u8>>,
    /// Open lists: the number of the next item, or `None` without numbers.
    lists: Vec<Option<usize>>,
    /// Open `pre` elements.
    preformatted: usize,
    in_title: bool,
    title: Writer,
    has_heading: bool,
}

impl<'a> PageWriter<'a> {
    fn new(writer: &'a mut Writer) -> PageWriter<'a> {
        PageWriter {
            writer,
            tag: Vec::new(),
            skipped: None,
            lists: Vec::new(),
            preformatted: 0,
            in_title: false,
            title: Writer::default(),
            has_heading: false,
        }
    }

    /// The title, if the page has no heading of the first level.
    fn title(self) -> Option<String> {
        let title = self.title.finish();
        let title = title.trim_end();
        (!self.has_heading && !title.is_empty()).then(|| title.to_owned())
    }

    fn event(&mut self, event: CallbackEvent<'_>, is_xml: bool) {
        match event {
            CallbackEvent::OpenStartTag { name } => {
                self.tag.clear();
                self.tag.extend(name);
            }
            CallbackEvent::CloseStartTag { self_closing } => {
                let tag = std::mem::take(&mut self.tag);
                if self.skipped.is_none() {
                    self.start(&tag);
                    if self_closing && is_xml {
                        self.skipped = None;
                        self.end(&tag);
                    }
                }
                self.tag = tag;
            }
            CallbackEvent::EndTag { name } => match &self.skipped {
                Some(skipped) if skipped == name => self.skipped = None,
                Some(_) => {}
                None => self.end(name),
            },
            CallbackEvent::String { value } if self.skipped.is_none() => {
                self.text(&String::from_utf8_lossy(value));
            }
            _ => {}
        }
    }

    fn text(&mut self, text: &str) {
        if self.in_title {
            self.title.text(text);
        } else if self.preformatted > 0 {
            self.writer.preformatted(text);
        } else {
            self.writer.text(text);
        }
    }

    fn start(&mut self, tag: &[u8]) {
        match tag {
            b"script" | b"style" | b"template" | b"iframe" | b"noembed" | b"noframes" => {
                self.skipped = Some(tag.to_owned());
            }
            b"title" => self.in_title = true,
            b"body" => self.in_title = false,
            b"h1" | b"h2" | b"h3" | b"h4" | b"h5" | b"h6" => {
                self.has_heading |= tag == b"h1";
                self.writer.heading(usize::from(tag[1] - b'0'));
            }
            b"ul" | b"ol" => {
                self.end_of_list();
                self.lists.push((tag == b"ol").then_some(1));
            }
            b"li" => self.item(),
            b"br" => self.writer.line(),
            b"dt" | b"dd" | b"option" => self.writer.line(),
            b"table" => self.writer.table(),
            b"tr" => self.writer.row(),
            b"td" | b"th" => self.writer.cell(),
            b"pre" => {
                self.writer.paragraph();
                self.preformatted += 1;
            }
            _ if is_block(tag) => self.writer.paragraph(),
            _ => {}
        }
    }

    fn end(&mut self, tag: &[u8]) {
        match tag {
            b"title" => self.in_title = false,
            b"ul" | b"ol" => {
                self.lists.pop();
                self.end_of_list();
            }
            b"table" => self.writer.table(),
            b"pre" => {
                self.preformatted = self.preformatted.saturating_sub(1);
                self.writer.paragraph();
            }
            b"dt" | b"dd" => self.writer.line(),
            b"li" => self.writer.end_item(),
            b"h1" | b"h2" | b"h3" | b"h4" | b"h5" | b"h6" => {
                self.writer.end_item();
                self.writer.paragraph();
            }
            _ if is_block(tag) => self.writer.paragraph(),
            _ => {}
        }
    }

    /// A list within a list follows its item without an empty line.
    fn end_of_list(&mut self) {
        self.writer.end_item();
        match self.lists.is_empty() {
            true => self.writer.paragraph(),
            false => self.writer.line(),
        }
    }

    fn item(&mut self) {
        let depth = self.lists.len().saturating_sub(1);
        let mark = match self.lists.last_mut() {
            Some(Some(number)) => {
                *number += 1;
                format!("{}.", *number - 1)
            }
            _ => "-".to_owned(),
        };
        self.writer.item(depth, &mark);
    }
}

fn is_block(tag: &[u8]) -> bool {
    const BLOCKS: &[&[u8]] = &[
        b"address",
        b"article",
        b"aside",
        b"blockquote",
        b"caption",
        b"center",
        b"details",
        b"div",
        b"dl",
        b"fieldset",
        b"figcaption",
        b"figure",
        b"footer",
        b"form",
        b"header",
        b"hgroup",
        b"hr",
        b"legend",
        b"main",
        b"menu",
        b"nav",
        b"p",
        b"search",
        b"section",
        b"select",
        b"summary",
    ];
    BLOCKS.contains(&tag)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(page: &str, wanted: &str) {
        let converted = convert(page.as_bytes(), 1 << 20).expect("a page");
        assert_eq!(converted.text, wanted, "{page}");
    }

    #[test]
    fn pages_become_readable_text() {
        check("<p>One &amp; two<p>Three<br>four <b>bold</b>er", "One & two\n\nThree\nfour bolder\n");
        check("<h2>Head</h2>text<div><div>deep</div></div>", "## Head\n\ntext\n\ndeep\n");
        check("see <a href='https://x.y/z'>the page</a>.", "see the page.\n");
        check(
            "<ul><li>a<ul><li>b</ul><li>c</ul><ol><li><p>x</p><li>y</ol>",
            "- a\n  - b\n- c\n\n1. x\n\n2. y\n",
        );
        check(
            "<table><tr><th>Name<th>Number<tr><td><p>Mary</p></td><td>34251</td></tr></table>end",
            "Name | Number\nMary | 34251\n\nend\n",
        );
        check("<pre>\n  a\n\n    b</pre>c", "  a\n\n    b\n\nc\n");
        check("<dl><dt>term<dd>meaning</dl>", "term\nmeaning\n");
    }

    #[test]
    fn scripts_and_styles_are_left_out() {
        check("<style>p > a { }</style><script>if (a < b) '<p>'</script>x<!-- no -->", "x\n");
        check("<p>x<script>var a = '</p>'; <!-- </script> y", "x y\n");
        check("<template><p>no</p></template>yes", "yes\n");
    }

    #[test]
    fn a_title_is_the_heading_of_a_page_without_one() {
        check("<title>Boats</title><p>x", "# Boats\n\nx\n");
        check("<title>Boats</title><h1>Rivers</h1>x", "# Rivers\n\nx\n");
        check("<?xml version='1.0'?><html><title/><script src='x'/><body>x</body></html>", "x\n");
    }

    #[test]
    fn declared_encodings_are_used() {
        let page = b"<meta charset=\"iso-8859-2\"><p>\xbf\xf3\xb3w";
        let converted = convert(page, 1 << 20).expect("a page");
        assert_eq!(converted.text, "żółw\n");
        assert_eq!(converted.notes[0].to_string(), "decoded as iso-8859-2");
        let converted = convert(b"<meta charset=latin1><p>ok \xc3\xa4", 1 << 20).expect("a page");
        assert_eq!(converted.text, "ok ä\n", "valid UTF-8 is UTF-8, whatever is declared");
    }

    #[test]
    fn deep_and_broken_pages_end() {
        let deep = "<div><ul><li><table><tr><td>".repeat(100_000);
        assert!(convert(deep.as_bytes(), 1 << 30).is_ok());
        for page in [
            "<",
            "<p",
            "</",
            "<!--",
            "<script>",
            "<title>",
            "&#x",
            "<pre>",
            "<![CDATA[",
            "</td></table></ul>",
        ] {
            assert!(convert(page.as_bytes(), 1 << 20).is_ok(), "{page}");
        }
    }
}
