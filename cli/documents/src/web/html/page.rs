//! The state between the pieces of a page: what is open, what is hidden, where text goes.

use super::blocks::{List, Role};
use super::controls::{self, Choices};
use super::css::{
    Counters, Counting, Declared, FontSize, Shifted, Siblings, Space, Subject, USUAL, is_smaller, symbol_font,
};
use super::elements::{Elements, is_inline, is_void};
use super::feet::Feet;
use super::icons::{self, Icon, Kind};
use super::math::{self, Math};
use super::pictures::is_line;
use super::prepass::{Prepass, is_tex};
use super::shadows::{self, Shadow};
use super::stacks::{Stack, has_word, may_contain};
use super::{Places, Tag, Token, signs};
use crate::color::Color;
use crate::counts::Counts;
use crate::writer::{Level, Writer};

/// Pages in frames within each other.
const MAX_FRAMES: usize = 4;

/// How the text of an element looks, and its parts unless they say otherwise.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    is_invisible: bool,
    is_tiny: bool,
    is_outside: bool,
    /// The size of its font in pixels, and the name of that if it has signs in place of letters.
    size: f32,
    symbols: &'static str,
    space: Space,
    level: Level,
    /// Whether it is raised or lowered by a length only.
    is_moved: bool,
    /// How much raised and lowered text there was where the innermost such element began.
    script_start: usize,
    /// Whether it is in a link within the page.
    is_link: bool,
    /// Only if the page says it.
    color: Option<Color>,
    background: Color,
}

/// An open element.
#[derive(Clone, Copy, Debug)]
pub(super) struct Open {
    look: Look,
    /// Whether nothing of it is there.
    is_absent: bool,
    is_struck: bool,
    /// Whether it is raised or lowered within text that is so itself.
    is_inner_script: bool,
    /// Whether the page itself hides it.
    begins_hiding: bool,
    /// Whether its parts stand beside each other, each on its own.
    divides: bool,
    /// What its end writes.
    role: Role,
}

/// Writes a page.
pub(super) struct Page<'a> {
    pub(super) writer: &'a mut Writer,
    pub(super) counts: &'a mut Counts,
    pub(super) known: Prepass,
    places: &'a mut Places,
    is_xml: bool,
    /// How many frames are around the page.
    frames: usize,
    /// Whether the body has begun, which HTML need not write.
    has_body: bool,
    /// The size of the font of the whole page, in pixels.
    font_size: f32,
    pub(super) elements: Elements<Open>,
    /// The open elements as rules see them, if rules look at them, and what is in each of them so far.
    around: Vec<Subject>,
    siblings: Vec<Siblings>,
    counters: Counters,
    /// What stands behind open elements, each with how many are around it.
    behind: Vec<(usize, Counting)>,
    /// Open elements without text so far that rules may hide: how many are around each.
    doubtful: Vec<usize>,
    /// The number before the element that begins, until it is written.
    pub(super) number: Option<String>,
    /// The mark of the item that begins, if the page makes it.
    pub(super) marker: Option<String>,
    /// The element whose content is left out, and how many of its name are open.
    skipped: Option<(Vec<u8>, usize)>,
    /// The TeX of a script.
    script: Option<String>,
    math: Option<(Math, usize)>,
    pub(super) lists: Vec<List>,
    /// Open tables: whether each is for layout.
    pub(super) tables: Vec<bool>,
    /// Those that are tables by their role: how many are open with each.
    pub(super) role_tables: Vec<usize>,
    feet: Feet,
    /// An element that waits with its shadow tree, and how many are being written.
    shadow: Option<Shadow>,
    shadows: usize,
    pub(super) choices: Option<Choices>,
    pub(super) stack: Option<Stack>,
    /// Open elements that may be icons, texts so far, and icons that are not known.
    icons: Vec<Icon>,
    texts: usize,
    unknown_icons: usize,
    pub(super) preformatted: usize,
    pub(super) svg: usize,
    /// Where the last piece of text in a drawing stands, if that is a number.
    pub(super) svg_height: Option<f64>,
    title: Writer,
    pub(super) titles: usize,
    pub(super) has_heading: bool,
    /// Whether the hidden text is counted already.
    is_counted: bool,
    /// Whether brackets around a reading are in the page.
    pub(super) has_brackets: bool,
    /// Whether the first letter of a word stands alone before the next text.
    pub(super) has_initial: bool,
    /// Whether there is a gap before the next text.
    pub(super) has_gap: bool,
}

impl<'a> Page<'a> {
    pub(super) fn new(
        writer: &'a mut Writer,
        counts: &'a mut Counts,
        known: Prepass,
        places: &'a mut Places,
        is_xml: bool,
        frames: usize,
    ) -> Page<'a> {
        Page {
            writer,
            counts,
            known,
            places,
            is_xml,
            frames,
            has_body: is_xml,
            font_size: USUAL,
            elements: Elements::default(),
            around: Vec::new(),
            siblings: vec![Siblings::default()],
            counters: Counters::default(),
            behind: Vec::new(),
            doubtful: Vec::new(),
            number: None,
            marker: None,
            skipped: None,
            script: None,
            math: None,
            lists: Vec::new(),
            tables: Vec::new(),
            role_tables: Vec::new(),
            feet: Feet::default(),
            shadow: None,
            shadows: 0,
            choices: None,
            stack: None,
            icons: Vec::new(),
            texts: 0,
            unknown_icons: 0,
            preformatted: 0,
            svg: 0,
            svg_height: None,
            title: Writer::default(),
            titles: 0,
            has_heading: false,
            is_counted: false,
            has_brackets: false,
            has_initial: false,
            has_gap: false,
        }
    }

    /// The title, if the page has no heading of the first level.
    pub(super) fn finish(mut self) -> Option<String> {
        self.write_shadow();
        self.close(0);
        self.end_math();
        self.counts.unknown_numbers += self.known.sheet.unknown_numbers();
        let title = self.title.finish();
        let title = title.trim_end();
        (!self.has_heading && !title.is_empty()).then(|| title.to_owned())
    }

    pub(super) fn token(&mut self, token: Token) {
        if let Some(shadow) = &mut self.shadow {
            if shadow.takes(&token) {
                return;
            }
            self.write_shadow();
        }
        if let Some((name, depth)) = &mut self.skipped {
            match token {
                Token::Start(tag) if tag.name == *name && !(tag.is_closed && self.is_xml) => *depth += 1,
                Token::End(end) if end == *name => *depth -= 1,
                Token::Text(text) => self.script.iter_mut().for_each(|script| script.push_str(text)),
                _ => {}
            }
            if self.skipped.as_ref().is_some_and(|(_, depth)| *depth == 0) {
                self.skipped = None;
                if let Some(script) = self.script.take() {
                    self.formula(&math::written(&script));
                }
            }
            return;
        }
        if let Some((math, depth)) = &mut self.math {
            match &token {
                Token::Start(tag) if math::local(&tag.name) == b"math" && !tag.is_closed => *depth += 1,
                Token::End(name) if math::local(name) == b"math" => *depth -= 1,
                _ => {}
            }
            match *depth {
                0 => self.end_math(),
                _ => math.token(&token),
            }
            return;
        }
        let is_in_table = self.tables.last() == Some(&false) && !self.is_absent();
        if is_in_table && self.feet.takes(&token, self.tables.len()) {
            if self.feet.is_full() {
                self.write_foot();
            }
            return;
        }
        if !self.has_body && begins_body(&token, self.elements.len() == 0) {
            self.begin_body(&token);
        }
        match token {
            Token::Start(tag) => self.start(tag),
            Token::End(name) => self.end_tag(name),
            Token::Text(text) => self.text(text),
        }
    }

    /// Writes an element that waited for the parts of its shadow tree.
    fn write_shadow(&mut self) {
        let Some((shown, rest)) = self.shadow.take().map(Shadow::finish) else { return };
        self.shadows += 1;
        shown.iter().for_each(|piece| self.token(piece.token()));
        self.write_shadow();
        self.shadows -= 1;
        self.hide(&rest);
    }

    /// Writes the foot of the innermost table. Returns whether one waited.
    fn write_foot(&mut self) -> bool {
        if self.feet.is_written {
            return false;
        }
        let Some(pieces) = self.feet.of_table(self.tables.len()) else { return false };
        self.feet.is_written = true;
        pieces.iter().for_each(|piece| self.token(piece.token()));
        self.feet.is_written = false;
        true
    }

    /// Begins what HTML need not write: rules of style may look at it, and counters belong to it.
    fn begin_body(&mut self, token: &Token) {
        self.has_body = true;
        if self.elements.len() == 0 {
            self.start(&Tag::named(b"html"));
        }
        if !matches!(token, Token::Start(tag) if tag.name == b"body") {
            self.start(&Tag::named(b"body"));
        }
    }

    fn end_math(&mut self) {
        if let Some((math, _)) = self.math.take() {
            self.formula(&math.finish());
        }
    }

    fn formula(&mut self, text: &str) {
        self.unstack();
        if !self.elements.last().is_some_and(|open| open.is_absent) {
            self.texts += 1;
            self.writer.text(text);
        }
    }

    fn look(&self) -> Look {
        self.elements.last().map_or(
            Look {
                is_invisible: false,
                is_tiny: false,
                is_outside: false,
                size: USUAL,
                symbols: "",
                space: Space::Joined,
                level: Level::Normal,
                is_moved: false,
                script_start: 0,
                is_link: false,
                color: None,
                background: if self.known.sheet.hides_background { Color::Unknown } else { Color::WHITE },
            },
            |open| open.look,
        )
    }

    /// Whether the parts of the innermost element stand beside each other, each on its own.
    pub(super) fn is_divided(&self) -> bool {
        self.elements.last().is_some_and(|open| open.divides)
    }

    fn is_absent(&self) -> bool {
        self.elements.last().is_some_and(|open| open.is_absent)
    }

    /// Whether a reader does not see the innermost element.
    pub(super) fn is_unseen(&self) -> bool {
        let look = self.look();
        let is_lost = look.color.is_some_and(|color| color.is_lost_on(look.background));
        self.is_absent() || look.is_invisible || look.is_tiny || look.is_outside || is_lost
    }

    pub(super) fn text(&mut self, text: &str) {
        let look = self.look();
        if self.is_unseen() {
            return self.hide(text);
        }
        if !text.trim().is_empty() {
            self.texts += 1;
            self.is_counted = false;
            self.counts.unread_styles += usize::from(!self.doubtful.is_empty());
            self.doubtful.clear();
        }
        let signs = (!look.symbols.is_empty()).then(|| signs::in_font(look.symbols, text));
        let text = match &signs {
            Some((signs, unknown)) => {
                self.counts.unknown_characters += unknown;
                signs
            }
            None => text,
        };
        // Behind `Q`, `What` is a word of its own.
        let mut next = text.chars();
        let goes_on = match (next.next(), next.next()) {
            (Some('’' | '\''), _) => true,
            (Some(first), second) => {
                first.is_lowercase() || first.is_uppercase() && second.is_some_and(char::is_uppercase)
            }
            (None, _) => false,
        };
        if std::mem::take(&mut self.has_initial) && !goes_on {
            self.write(Level::Normal, " ");
        }
        if std::mem::take(&mut self.has_gap)
            && text.starts_with(char::is_numeric)
            && self.ends_with(char::is_numeric)
        {
            self.write(Level::Normal, " ");
        }
        match self.elements.last().map(|open| open.role) {
            Some(Role::Title) => self.title.text(text),
            _ if self.choices.is_some() => self.choices.iter_mut().for_each(|choices| choices.text(text)),
            // Words that are moved a little are so for their looks.
            _ if look.is_moved && (has_word(text) || text.starts_with(char::is_whitespace)) => {
                self.write(Level::Normal, text);
            }
            _ if look.level != Level::Normal => self.write(look.level, text),
            _ if self.preformatted > 0 => self.writer.preformatted(text),
            _ if look.space != Space::Joined => self.spaced(look.space, text),
            _ => self.write(look.level, text),
        }
    }

    /// Writes text whose white space a style sheet keeps. A heading is one line all the same.
    fn spaced(&mut self, space: Space, text: &str) {
        const HEADINGS: [&[u8]; 6] = [b"h1", b"h2", b"h3", b"h4", b"h5", b"h6"];
        if HEADINGS.iter().any(|name| self.elements.is_within(name)) {
            return self.write(Level::Normal, text);
        }
        let is_inner = !self.lists.is_empty() || self.elements.is_within(b"blockquote");
        let is_blank = text.trim().is_empty();
        if is_blank
            || is_inner
            || space == Space::Lines
            || !text.contains(['\n', '\t']) && !text.contains("  ")
        {
            for (i, line) in text.split('\n').enumerate() {
                if i > 0 {
                    self.line();
                }
                self.write(Level::Normal, line);
            }
            return;
        }
        self.unstack();
        self.writer.preformatted(text);
    }

    fn hide(&mut self, text: &str) {
        self.stack.iter_mut().for_each(|stack| stack.hides(text));
        if !text.trim().is_empty() && !self.is_counted {
            self.counts.hidden += 1;
            self.is_counted = true;
        }
    }

    fn start(&mut self, tag: &Tag) {
        let name = tag.name.as_slice();
        if !may_contain(tag) {
            self.unstack();
        }
        if !self.is_xml {
            self.close(self.elements.kept_by_start(name));
        }
        if shadows::begins(tag) && !self.is_absent() {
            if self.shadows < shadows::MAX_NESTED {
                self.shadow = Some(Shadow::new(self.elements.last_name(), self.is_xml));
                return;
            }
            self.counts.skipped_files.push("template");
        }
        self.begin_place(tag);
        let subject = self.subject(tag);
        if self.skips(tag) {
            if name == b"iframe" {
                self.frame(tag, subject.as_ref());
            }
            self.pass(subject);
            self.script = (name == b"script" && is_tex(tag)).then(String::new);
            let is_empty = is_void(name) || (tag.is_closed && self.is_xml);
            self.skipped = (!is_empty).then(|| (name.to_vec(), 1));
            return;
        }
        let declared = self.declared(tag, subject.as_ref());
        let is_absent = self.is_absent() || is_absent(tag, &declared);
        if math::local(name) == b"math" && !tag.is_closed {
            self.pass(subject);
            if !is_absent {
                self.math = Some((Math::new(tag), 1));
            } else {
                self.skipped = Some((name.to_vec(), 1));
            }
            return;
        }
        if is_void(name) {
            self.pass(subject);
            if !is_absent {
                self.void(tag, &declared);
            }
            return;
        }
        if let Some(subject) = subject.as_ref().filter(|_| self.known.sheet.has_numbers && !is_absent) {
            self.count(tag, subject, declared.is_icon == Some(true));
        }
        let may_hide = self.known.sheet.may_hide(tag, subject.as_ref(), &self.around);
        if may_hide && !is_absent && !self.known.opens(tag) {
            self.doubtful.push(self.elements.len());
        }
        let is_box = declared.layout.is_box_in_line();
        let level_of_box = self.level(tag, &declared, is_box);
        let level = if is_box { self.level(tag, &declared, false) } else { level_of_box };
        let mut look = self.look_of(tag, &declared, level);
        if name == b"html" {
            self.font_size = look.size;
        }
        let is_script = |level: Level| matches!(level, Level::Raised | Level::Lowered);
        let around = self.look();
        let may_be_inner =
            matches!(name, b"sup" | b"sub") && level.is_some_and(is_script) && is_script(around.level);
        if may_be_inner {
            self.unstack();
        }
        let is_inner_script = may_be_inner && self.writer.begin_inner_script(look.level, around.script_start);
        if is_inner_script {
            look.level = around.level;
        }
        let begins_hiding = is_absent || declared.is_seen() == Some(false) || declared.color.is_some();
        if begins_hiding {
            self.is_counted &= self.is_absent();
        }
        let is_struck =
            !is_absent && (matches!(name, b"s" | b"strike" | b"del") || declared.is_struck == Some(true));
        let role = if is_absent { Role::Inline } else { self.begin(tag, &declared) };
        if name == b"image" && self.svg > 0 && !is_absent {
            self.picture(tag, &declared);
        }
        if let Some(mark) = controls::role(tag).filter(|_| !is_absent) {
            self.text(mark);
            self.text(" ");
        }
        if is_struck {
            self.unstack();
            self.writer.begin_struck();
        }
        let divides = declared.layout.divides();
        self.elements
            .push(name, Open { look, is_absent, is_struck, is_inner_script, begins_hiding, divides, role });
        if let Some(subject) = subject.filter(|_| self.known.sheet.looks_around) {
            self.around.push(subject);
            self.siblings.push(Siblings::default());
        }
        if let Some(icon) = self.icons.last_mut().filter(|_| name == b"use") {
            icon.uses(tag);
        }
        let kind = icons::kind(tag).filter(|_| !is_absent && self.choices.is_none());
        self.icons.extend(kind.map(|kind| Icon {
            depth: self.elements.len() - 1,
            texts: self.texts,
            unknown: self.unknown_icons,
            kind,
        }));
        if let Some(stack) = self.stack.as_mut().filter(|_| declared.layout.has_rule()) {
            stack.draws_line(role == Role::Line);
        }
        if self.may_stack(tag, &declared) {
            let is_smaller = is_smaller(look.size, around.size);
            let is_set_off =
                [is_smaller, declared.shift.is_aligned(), self.ends_with(|c| !c.is_whitespace())];
            let is_small = is_set_off.into_iter().filter(|is_so| *is_so).count() > 1;
            self.stack = Some(Stack::new(self.elements.len() - 1, level_of_box, is_small));
        }
        if let Some(number) = self.number.take() {
            self.text(&number);
        }
        if tag.is_closed && (self.is_xml || self.svg > 0) {
            self.close(self.elements.len() - 1);
        }
    }

    fn begin_place(&mut self, tag: &Tag) {
        if self.places.is_empty() {
            return;
        }
        let name = tag.attribute("name").filter(|_| tag.name == b"a");
        for id in tag.attribute("id").into_iter().chain(name) {
            // The first element of an id counts.
            self.places.remove(&id).into_iter().for_each(|number| self.writer.place(number));
        }
    }

    /// An element as rules see it, if there are any. What is in the head of a page that writes none is no neighbour.
    fn subject(&mut self, tag: &Tag) -> Option<Subject> {
        let is_in_head = self.elements.len() == 0
            && matches!(&*tag.name, b"title" | b"meta" | b"link" | b"base" | b"style" | b"script");
        let mut subject = self.known.sheet.subject(tag).filter(|_| !is_in_head)?;
        if self.known.sheet.looks_around {
            self.siblings.iter_mut().last().into_iter().for_each(|siblings| siblings.begin(&mut subject));
        }
        Some(subject)
    }

    /// An element is passed that has no open elements within it.
    fn pass(&mut self, subject: Option<Subject>) {
        if let (Some(siblings), Some(subject)) = (self.siblings.last_mut(), subject) {
            siblings.end(subject);
        }
    }

    /// Counts an element, and finds the text before it.
    fn count(&mut self, tag: &Tag, subject: &Subject, is_icon: bool) {
        let depth = self.elements.len();
        let mut numbering = self.known.sheet.numbering(tag, subject, &self.around);
        match tag.name.as_slice() {
            b"ul" | b"ol" | b"menu" | b"dir" => self.counters.begin_list(depth),
            b"li" => {
                if let Some(number) = self.next_item(tag) {
                    self.counters.item(number, depth);
                }
            }
            _ => {}
        }
        for counting in [&mut numbering.before, &mut numbering.after] {
            // Unless it has another font, it has that of the element.
            counting.is_icon = counting.is_icon.or(Some(is_icon));
        }
        self.counters.count(&numbering.own, depth);
        self.marker = match self.text_of(&numbering.marker, depth, true) {
            None if numbering.marker.is_ornament() => Some("-".to_owned()),
            marker => marker,
        };
        self.number = self.text_of(&numbering.before, depth, true);
        if tag.name != b"li" {
            // Marks of other elements stand before them.
            let marker = self.marker.take().filter(|_| numbering.marker.has_text());
            self.number = self.number.take().or(marker);
        }
        if numbering.after.has_text() {
            self.behind.push((depth, numbering.after));
        }
    }

    /// The text before or behind an element that has so many elements around it.
    fn text_of(&mut self, counting: &Counting, depth: usize, is_before: bool) -> Option<String> {
        let text = self.counters.text(counting, depth, &self.known.sheet.counter_styles, is_before);
        self.counts.unknown_numbers += usize::from(text.is_err());
        text.ok().flatten()
    }

    /// Whether the content of an element is no text.
    fn skips(&self, tag: &Tag) -> bool {
        let class = || tag.attribute("class").unwrap_or_default();
        match tag.name.as_slice() {
            b"script" | b"style" | b"template" | b"iframe" | b"noembed" | b"noframes" | b"datalist" => true,
            b"title" | b"desc" | b"defs" | b"metadata" => self.svg > 0,
            // The same formula a second time, drawn with letters.
            b"span" | b"div" | b"nobr" if class().contains("katex-html") => true,
            b"span" | b"div" if self.known.has_tex_scripts => class().starts_with("MathJax"),
            _ => false,
        }
    }

    fn declared(&self, tag: &Tag, subject: Option<&Subject>) -> Declared {
        let mut declared = Declared::default();
        let color = |name: &str| tag.attribute(name).map(|color| Color::parse(&color));
        match tag.name.as_slice() {
            b"font" => {
                declared.color = color("color");
                declared.size = tag.attribute("size").and_then(|size| FontSize::numbered(&size));
                declared.symbols = tag.attribute("face").map(|face| symbol_font(&face));
            }
            b"body" => (declared.color, declared.background) = (color("text"), color("bgcolor")),
            b"table" | b"tr" | b"td" | b"th" => declared.background = color("bgcolor"),
            b"small" | b"sup" | b"sub" => declared.size = Some(FontSize::Around(0.83)),
            b"h1" => declared.size = Some(FontSize::Around(2.0)),
            b"h2" => declared.size = Some(FontSize::Around(1.5)),
            b"mark" => declared.background = Some(Color::Unknown),
            // Their looks are the browser's.
            b"button" | b"input" | b"select" | b"textarea" => declared.background = Some(Color::Unknown),
            _ => {}
        }
        if tag.has("background") {
            declared.background = Some(Color::Unknown);
        }
        let mut declared = declared.replaced_by(self.known.sheet.of(tag, subject, &self.around));
        if matches!(tag.name.as_slice(), b"table" | b"tr" | b"td" | b"th") {
            declared.outside.grows();
        }
        if self.known.opens(tag) {
            (declared.is_absent, declared.is_invisible) = (None, None);
        }
        declared
    }

    /// Where the text of an element stands, if something says so. It is a part of its line, or may be if `is_box`.
    fn level(&self, tag: &Tag, declared: &Declared, is_box: bool) -> Option<Level> {
        if !is_inline(&tag.name) {
            return None;
        }
        let around = self.look().size;
        let size = declared.size.map_or(around, |size| size.pixels(around, self.font_size));
        declared.shift.level(Shifted {
            level: match tag.name.as_slice() {
                b"sup" => Some(Level::Raised),
                b"sub" => Some(Level::Lowered),
                _ => None,
            },
            is_in_line: (is_box || declared.layout.is_in_line()) && !self.is_divided(),
            is_smaller: is_smaller(size, around),
            touches_number: self.ends_with(char::is_numeric),
        })
    }

    /// Whether the text of an element is larger than the text around it.
    pub(super) fn is_larger(&self, declared: &Declared) -> bool {
        let around = self.look().size;
        declared.size.is_some_and(|size| is_smaller(around, size.pixels(around, self.font_size)))
    }

    /// Whether the text of an element that has begun waits.
    fn may_stack(&self, tag: &Tag, declared: &Declared) -> bool {
        let is_text = self.choices.is_none() && self.preformatted == 0 && self.svg == 0;
        let is_plain = is_text && self.look().level == Level::Normal && !self.is_unseen();
        is_plain && self.stack.is_none() && may_contain(tag) && declared.layout.is_box_in_line()
    }

    /// Whether text would go on behind such a character.
    pub(super) fn ends_with(&self, is_such: impl Fn(char) -> bool) -> bool {
        let of_stack = self.stack.as_ref().and_then(|stack| stack.ends_with(&is_such));
        of_stack.unwrap_or_else(|| self.writer.ends_with(is_such))
    }

    fn look_of(&self, tag: &Tag, declared: &Declared, level: Option<Level>) -> Look {
        let around = self.look();
        let is_note = tag.is("epub:type", "noteref") || tag.is("role", "doc-noteref");
        let is_local = |href: String| href.contains('#');
        let is_link = around.is_link || (tag.name == b"a" && tag.attribute("href").is_some_and(is_local));
        let script_start = match level {
            Some(Level::Raised | Level::Lowered) => self.writer.script_texts(),
            _ => around.script_start,
        };
        let is_script = matches!(tag.name.as_slice(), b"sup" | b"sub");
        let is_moved = match level {
            Some(_) => !is_script && declared.shift.is_by_length(),
            None => around.is_moved,
        };
        let level = match level.unwrap_or(around.level) {
            _ if is_note => Level::Mark,
            Level::Raised if is_link => Level::Mark,
            level => level,
        };
        let background = match declared.background {
            Some(Color::Transparent) | None => around.background,
            Some(color) => color,
        };
        Look {
            is_invisible: declared.is_invisible.unwrap_or(around.is_invisible),
            is_tiny: declared.is_tiny.unwrap_or(around.is_tiny),
            is_outside: around.is_outside || declared.outside.is_outside() == Some(true),
            size: declared.size.map_or(around.size, |size| size.pixels(around.size, self.font_size)),
            symbols: declared.symbols.unwrap_or(around.symbols),
            space: declared.space.unwrap_or(around.space),
            level,
            is_moved,
            script_start,
            is_link,
            color: if declared.shows_ground == Some(true) {
                Some(Color::Unknown)
            } else {
                declared.color.or(around.color)
            },
            background,
        }
    }

    /// Writes the page that a frame has in an attribute of its own. What its address leads to is not known.
    fn frame(&mut self, tag: &Tag, subject: Option<&Subject>) {
        let Some(page) = tag.attribute("srcdoc").filter(|page| !page.trim().is_empty()) else { return };
        let declared = self.declared(tag, subject);
        let is_hidden = is_absent(tag, &declared) || declared.is_seen() == Some(false) || is_line(tag);
        // A frame has colours and sizes of its own.
        let look = self.look();
        if is_hidden || self.is_absent() || look.is_invisible || look.is_outside {
            return self.hide(&page);
        }
        // No browser shows a frame among choices. A table within a table would end its row.
        let has_table = || page.to_ascii_lowercase().contains("<table");
        let ends_row = self.tables.last() == Some(&false) && has_table();
        if self.frames >= MAX_FRAMES || self.choices.is_some() || ends_row {
            return self.counts.skipped_files.push("iframe");
        }
        self.writer.paragraph();
        let (frames, mut places) = (self.frames + 1, Places::new());
        super::write(&page, false, frames, &mut places, self.writer, self.counts, &mut |_, _| None);
        self.writer.paragraph();
    }

    /// Writes what an element without content stands for.
    fn void(&mut self, tag: &Tag, declared: &Declared) {
        match tag.name.as_slice() {
            b"br" if self.preformatted > 0 => self.writer.preformatted("\n"),
            b"br" => self.line(),
            b"hr" => self.writer.paragraph(),
            b"input" => {
                let is_shown = declared.outside.is_outside() != Some(true) && !controls::is_switch(tag);
                if let Some(text) = controls::input(tag).filter(|_| is_shown) {
                    self.writer.text(" ");
                    self.text(&text);
                    self.writer.text(" ");
                }
            }
            b"img" => {
                self.texts += 1;
                self.picture(tag, declared);
            }
            _ => {}
        }
    }

    fn end_tag(&mut self, name: &[u8]) {
        let kept = self.elements.kept_by_end(name, self.is_xml);
        if kept == self.elements.len() && !self.is_absent() && (name == b"p" || name == b"br") {
            self.writer.paragraph();
        }
        self.close(kept);
    }

    /// Reads an icon, or counts one that is all that a cell has.
    fn end_icon(&mut self, icon: Icon) {
        if self.texts > icon.texts || self.is_unseen() {
            return;
        }
        const CONTROLS: &[&[u8]] = &[b"a", b"button", b"clipboard-copy", b"label", b"summary"];
        let is_control = CONTROLS.iter().any(|name| self.elements.is_within(name));
        let is_in_cell = self.icons.iter().any(|around| matches!(around.kind, Kind::Cell));
        match icon.kind {
            Kind::Label(_, is_picture) if !is_picture && !is_in_cell => {}
            Kind::Label(label, _) => self.text(&format!(" [image: {label}] ")),
            // On a control, a sign says what that does; elsewhere a cross may close something.
            Kind::Sign(sign) if !is_control && (sign != "✗" || is_in_cell || !self.lists.is_empty()) => {
                self.text(&format!("{sign} "));
            }
            Kind::Cell => self.counts.pictures += usize::from(self.unknown_icons > icon.unknown),
            Kind::Unknown | Kind::Sign(_) => self.unknown_icons += 1,
        }
    }

    /// Closes elements until so many are open.
    fn close(&mut self, kept: usize) {
        while self.elements.len() > kept {
            let is_table = self.elements.last().is_some_and(|open| open.role == Role::Table);
            if is_table && self.write_foot() {
                // Elements of the foot may be open.
                continue;
            }
            let depth = self.elements.len() - 1;
            if let Some((_, behind)) = self.behind.pop_if(|(element, _)| *element == depth)
                && let Some(text) = self.text_of(&behind, depth, false)
            {
                self.text(&text);
            }
            if let Some(icon) = self.icons.pop_if(|icon| icon.depth == depth) {
                self.end_icon(icon);
            }
            self.end_stack(depth);
            let Some(open) = self.elements.pop() else { return };
            self.counters.leave(depth);
            self.doubtful.pop_if(|element| *element == depth);
            if let Some(subject) = self.around.pop() {
                self.siblings.pop();
                self.pass(Some(subject));
            }
            if open.is_inner_script {
                self.writer.end_inner_script();
            }
            if open.is_struck {
                self.writer.end_struck();
            }
            if open.begins_hiding {
                self.is_counted &= self.is_absent();
            }
            if !open.is_absent {
                self.end(open.role);
            }
        }
    }
}

/// Whether a piece of a page is the first of its body.
fn begins_body(token: &Token, is_outermost: bool) -> bool {
    const HEAD: &[&[u8]] = &[
        b"html",
        b"head",
        b"title",
        b"meta",
        b"link",
        b"base",
        b"style",
        b"script",
        b"template",
        b"noscript",
    ];
    match token {
        Token::Start(tag) => !HEAD.contains(&tag.name.as_slice()),
        Token::Text(text) => is_outermost && !text.trim().is_empty(),
        Token::End(_) => false,
    }
}

/// Whether an element is not shown.
fn is_absent(tag: &Tag, declared: &Declared) -> bool {
    let is_hidden = tag.attribute("hidden").is_some_and(|value| !value.eq_ignore_ascii_case("until-found"));
    match tag.name.as_slice() {
        // Scripts run where people read pages.
        b"noscript" => true,
        b"dialog" if !tag.has("open") => declared.is_absent != Some(false),
        _ => declared.is_absent.unwrap_or(is_hidden),
    }
}
