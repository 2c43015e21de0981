//! Attachments as Outlook packs them into `winmail.dat` (TNEF, [MS-OXTNEF]): the attributes that hold files and a plain text.
//! Text in HTML and RTF is in other properties, which are not read. Whether there is one, its number tells.

use encoding_rs::Encoding;

use crate::plain::decode::of_code_page;

/// How such a file begins. A key of two bytes follows.
pub(crate) const SIGNATURE: &[u8] = b"\x78\x9f\x3e\x22";

/// Attributes by their numbers.
const BODY: u32 = 0x0002_800c;
const PROPERTIES: u32 = 0x0006_9003;
const BEGINS_FILE: u32 = 0x0006_9002;
const FILE_NAME: u32 = 0x0001_8010;
const FILE: u32 = 0x0006_800f;
const CODE_PAGE: u32 = 0x0006_9007;
/// The property with the text in RTF, and that with the text in HTML: the kind, then the number.
const TEXTS: [&[u8]; 2] = [b"\x02\x01\x09\x10", b"\x02\x01\x13\x10"];

/// What is packed.
#[derive(Debug, Default)]
pub(super) struct Packed<'a> {
    /// The number of the code page of its texts; 0 if it says none.
    code_page: u32,
    /// The message as plain text.
    pub(super) body: &'a [u8],
    /// Whether it has the message in another form.
    pub(super) has_other_text: bool,
    /// Names and contents of files. Messages that are attached have no content here.
    pub(super) files: Vec<(&'a [u8], Option<&'a [u8]>)>,
    /// Whether it ends within an attribute.
    pub(super) is_cut_off: bool,
}

impl Packed<'_> {
    /// The encoding of its texts, if it says one that is known.
    pub(super) fn encoding(&self) -> Option<&'static Encoding> {
        of_code_page(self.code_page)
    }
}

/// What a file has packed; none if it is another one.
pub(super) fn unpack(bytes: &[u8]) -> Option<Packed<'_>> {
    let mut rest = bytes.strip_prefix(SIGNATURE)?.get(2..)?;
    let mut packed = Packed::default();
    // The level, the number and the length; behind the content is a sum of two bytes.
    while let Some((head, after)) = rest.split_first_chunk::<9>() {
        let number = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let Some((content, after)) = after.split_at_checked(number(5) as usize) else { break };
        rest = after.get(2..).unwrap_or_default();
        let text = content.split(|byte| *byte == 0).next().unwrap_or_default();
        match (number(1), packed.files.last_mut()) {
            (CODE_PAGE, _) => {
                let page = content.first_chunk().copied().map(u32::from_le_bytes);
                packed.code_page = page.unwrap_or_default();
            }
            (BODY, _) => packed.body = text,
            (PROPERTIES, _) => {
                packed.has_other_text |= TEXTS.iter().any(|tag| memchr::memmem::find(content, tag).is_some());
            }
            (BEGINS_FILE, _) => packed.files.push((b"", None)),
            (FILE_NAME, Some((name, _))) => *name = text,
            (FILE, Some((_, file))) => *file = Some(content),
            _ => {}
        }
    }
    // Programs that send messages add ends of lines.
    packed.is_cut_off = !rest.iter().all(|byte| matches!(byte, b'\r' | b'\n' | 0));
    Some(packed)
}
