//! Runs a chat template in a child process ([`child::Child`]), so that a hostile template can neither run
//! forever nor take all memory nor end the program.
//!
//! The child compiles the template when it starts and then renders one conversation after another. If it
//! exceeds a limit or crashes, the next rendering starts a new one.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use child::{Child, Ending, Work};
use chrono::{DateTime, FixedOffset};

use super::environment::{self, Compiled, Variable};
use super::form::Forms;
use super::wire;
use crate::chat::{ChatError, Message};

/// The name of this work.
pub const TEMPLATES: &str = "templates";

/// What compiling or rendering may take. Long messages add to it, because they are copied a few times. A child cannot
/// be given more memory later, so it starts with memory for messages of a certain length.
#[derive(Debug, Clone, Copy)]
struct Limits {
    /// Wall-clock time without messages.
    time: Duration,
    /// Memory without messages.
    memory_bytes: u64,
}

/// With the memory for usual messages, a child has 512 MiB.
const LIMITS: Limits = Limits { time: Duration::from_secs(10), memory_bytes: 384 << 20 };
/// More memory for each byte of the messages, in bytes.
const MEMORY_PER_CONTENT: u64 = 8;
/// Bytes of the messages for which every child has memory.
const USUAL_CONTENT: u64 = 16 << 20;
/// Bytes of the messages for which there is another microsecond. This is a tenth of the usual speed.
const CONTENT_PER_MICROSECOND: u64 = 10;

/// A compiled template.
#[derive(Debug)]
pub(in crate::chat) struct Template {
    source: String,
    now: DateTime<FixedOffset>,
    limits: Limits,
    /// `None` after the child has exceeded a limit.
    child: Mutex<Option<Renderer>>,
}

/// A child that renders.
#[derive(Debug)]
struct Renderer {
    child: Child,
    /// Bytes of the messages that it has memory for.
    content_bytes: u64,
}

impl Template {
    /// Compiles a template. `now` is the time of `strftime_now`; it is the same for a whole conversation, so
    /// that the beginning of the prompt never changes.
    pub(in crate::chat) fn compile(source: &str, now: DateTime<FixedOffset>) -> Result<Template, ChatError> {
        Template::with_limits(source, now, LIMITS)
    }

    fn with_limits(source: &str, now: DateTime<FixedOffset>, limits: Limits) -> Result<Template, ChatError> {
        let source = environment::prepare(source)?;
        let template = Template { source, now, limits, child: Mutex::new(None) };
        let child = template.start(USUAL_CONTENT)?;
        Ok(Template { child: Mutex::new(Some(child)), ..template })
    }

    /// Renders the template with these variables and messages, whose contents have these forms.
    pub(in crate::chat) fn render(
        &self,
        variables: &BTreeMap<String, Variable>,
        messages: &[Message],
        forms: Forms,
    ) -> Result<String, ChatError> {
        let mut slot = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        let content_bytes =
            wire::content_bytes(messages) + variables.values().map(Variable::bytes).sum::<usize>();
        let usable = |renderer: Renderer| {
            let child = renderer.child.if_running()?;
            let is_enough = content_bytes as u64 <= renderer.content_bytes;
            is_enough.then_some(Renderer { child, ..renderer })
        };
        let renderer = match slot.take().and_then(usable) {
            Some(renderer) => renderer,
            // The next conversation is a little longer.
            None => self.start((content_bytes as u64).saturating_mul(2).max(USUAL_CONTENT))?,
        };
        let ask = |child: &Child| {
            let deadline = Instant::now() + self.limits.time(content_bytes as u64);
            let mut out = BufWriter::new(child.channel(deadline));
            wire::write_request(&mut out, variables.iter(), messages, forms)?;
            let max_output = environment::max_output_bytes(content_bytes);
            wire::read_reply(&mut BufReader::new(child.channel(deadline)), max_output)
        };
        match ask(&renderer.child) {
            Ok(reply) => {
                *slot = Some(renderer);
                reply
            }
            Err(e) => {
                let memory = self.limits.memory_bytes(renderer.content_bytes);
                Err(self.limits.exceeded(&e, renderer.child.end(), content_bytes as u64, memory))
            }
        }
    }

    /// Starts a child with memory for messages of so many bytes, which compiles the template.
    fn start(&self, content_bytes: u64) -> Result<Renderer, ChatError> {
        let memory_bytes = self.limits.memory_bytes(content_bytes);
        let limits = child::Limits { stack_bytes: environment::STACK_BYTES, memory_bytes };
        let work = Rendering { source: self.source.as_str().into(), now: self.now, time: self.limits.time };
        let child = Child::start(limits, &work);
        let child = child.map_err(|e| ChatError::NoProcess { why: e.to_string() })?;
        let deadline = Instant::now() + self.limits.time;
        match wire::read_reply(&mut BufReader::new(child.channel(deadline)), 0) {
            Ok(reply) => reply.map(|_| Renderer { child, content_bytes }),
            Err(e) => Err(self.limits.exceeded(&e, child.end(), 0, memory_bytes)),
        }
    }
}

/// Compiles and renders templates in a process that was started for it ([`child::requested`]), and ends the process.
pub fn serve() -> ! {
    child::serve::<Rendering>()
}

/// What a child does: it compiles a template, then renders the conversations that it receives.
struct Rendering<'a> {
    source: Cow<'a, str>,
    now: DateTime<FixedOffset>,
    /// [`Limits::time`].
    time: Duration,
}

impl Work for Rendering<'_> {
    const NAME: &'static str = TEMPLATES;

    fn write(&self, mut to: &mut dyn Write) -> io::Result<()> {
        wire::write_text(&mut to, &self.source)?;
        wire::write_text(&mut to, &self.now.to_rfc3339())?;
        wire::write_number(&mut to, self.time.as_millis() as usize)
    }

    fn read(mut from: &mut dyn Read) -> io::Result<Self> {
        let source = wire::read_text(&mut from, u64::MAX)?.into();
        let now = wire::read_text(&mut from, u64::MAX)?;
        let now = DateTime::parse_from_rfc3339(&now).map_err(io::Error::other)?;
        Ok(Rendering { source, now, time: Duration::from_millis(wire::read_number(&mut from)?) })
    }

    fn run(&self, mut input: &mut dyn Read, output: &mut dyn Write) -> io::Result<()> {
        // For a parent that is gone and cannot keep the deadline, where the child does not end with it.
        let seconds = |content_bytes| Some((self.time + more_time(content_bytes)).as_secs() as u32 + 2);
        child::limit_time(seconds(0));
        let compiled = match Compiled::new(self.source.clone().into_owned(), self.now) {
            Ok(compiled) => compiled,
            Err(error) => return wire::write_reply(&mut BufWriter::new(output), &Err(error)),
        };
        let mut reply = Ok(String::new());
        loop {
            child::limit_time(None);
            wire::write_reply(&mut BufWriter::new(&mut *output), &reply)?;
            let content_bytes = wire::read_number(&mut input)?;
            let request = wire::read_request(&mut BufReader::new(&mut *input))?;
            child::limit_time(seconds(content_bytes));
            reply = compiled.render(request.variables, request.messages);
        }
    }
}

/// More time for messages of so many bytes.
fn more_time(content_bytes: u64) -> Duration {
    Duration::from_micros(content_bytes / CONTENT_PER_MICROSECOND)
}

impl Limits {
    /// Maximum time for a conversation whose messages have `content_bytes`.
    fn time(&self, content_bytes: u64) -> Duration {
        self.time + more_time(content_bytes)
    }

    /// Maximum memory of a child for conversations whose messages have up to `content_bytes`.
    fn memory_bytes(&self, content_bytes: u64) -> u64 {
        self.memory_bytes.saturating_add(content_bytes.saturating_mul(MEMORY_PER_CONTENT))
    }

    /// The error for a child with so much memory that was ended because of `error`.
    fn exceeded(&self, error: &io::Error, ending: Ending, content_bytes: u64, memory: u64) -> ChatError {
        let failed = |why: &str| ChatError::Failed { why: why.to_owned() };
        match (ending, error.kind()) {
            (Ending::OutOfMemory, _) => ChatError::OutOfMemory { bytes: memory },
            (Ending::StackOverflow, _) => ChatError::TooDeep,
            (Ending::OutOfTime, _) | (_, io::ErrorKind::TimedOut) => {
                ChatError::TooSlow(self.time(content_bytes))
            }
            (Ending::Panicked, _) => failed("the template engine panicked"),
            (_, io::ErrorKind::InvalidData) => failed("the reply of its process is invalid"),
            _ => failed("its process ended unexpectedly"),
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    /// Much time, for tests that meet another limit.
    const PATIENT: Limits = Limits { time: Duration::from_secs(100), memory_bytes: 64 << 20 };
    const HASTY: Limits = Limits { time: Duration::from_millis(100), ..PATIENT };

    fn template(source: &str, limits: Limits) -> Result<Template, ChatError> {
        let now = DateTime::parse_from_rfc3339("2024-07-06T08:09:10+02:00").expect("a date");
        Template::with_limits(source, now, limits)
    }

    fn render(template: &Template, content: &str) -> Result<String, ChatError> {
        template.render(&BTreeMap::new(), &[Message::user(content)], Forms::TEXT)
    }

    /// The template with `attack` in it, which renders a message that is not empty as it is, ends the child
    /// with this error; then the same template works, and its child is another one.
    fn check(attack: &str, limits: Limits, want: &ChatError) {
        let source = format!("{{% if messages[0].content %}}good{{% else %}}{attack}{{% endif %}}");
        let patient = Limits { time: PATIENT.time, ..limits };
        let mut template = template(&source, patient).unwrap_or_else(|e| panic!("{attack}: {e}"));
        let pid = |template: &Template| {
            let renderer = template.child.lock().expect("not poisoned");
            renderer.as_ref().map(|renderer| renderer.child.pid())
        };
        let first = pid(&template).expect("a child");
        assert_eq!(render(&template, "x"), Ok("good".into()), "{attack}");
        assert_eq!(pid(&template), Some(first), "a child serves many renderings");

        template.limits = limits;
        assert_eq!(render(&template, "").as_ref(), Err(want), "{attack}");
        assert_eq!(pid(&template), None);
        assert!(!is_child(first), "{attack}: the child is still there");

        template.limits = patient;
        assert_eq!(render(&template, "x"), Ok("good".into()), "{attack}");
        let second = pid(&template).expect("a child");
        drop(template);
        assert!(!is_child(second), "{attack}: the child outlives the template");
    }

    /// Whether this process has a child of this number, be it a zombie.
    fn is_child(pid: i32) -> bool {
        let pid = rustix::process::Pid::from_raw(pid);
        rustix::process::waitpid(pid, rustix::process::WaitOptions::NOHANG).is_ok()
    }

    const DEEP: &str = "{% set ns = namespace(x=[], y=[]) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% set ns.y = [ns.y, ns.y] %}{% endfor %}";

    #[test]
    fn a_template_that_runs_too_long_is_ended() {
        let want = ChatError::TooSlow(HASTY.time);
        check("{{ 'aaaa'.count('') }}", HASTY, &want);
        for use_of_x in [
            "ns.x|tojson",
            "ns.x == ns.y",
            "ns.x in [ns.y]",
            "[ns.x, ns.y]|sort",
            "[ns.x, ns.y]|unique|list",
            "{ns.x: 1}[ns.y]",
        ] {
            check(&format!("{DEEP}{{{{ {use_of_x} }}}}"), HASTY, &want);
        }
    }

    #[test]
    fn a_template_that_takes_too_much_memory_is_ended() {
        let want = ChatError::OutOfMemory { bytes: PATIENT.memory_bytes(USUAL_CONTENT) };
        let doubled = |start: &str, operator: &str| {
            format!(
                "{{% set ns = namespace(x={start}) %}}{{% for i in range(60) %}}{{% set ns.x = ns.x {operator} ns.x %}}{{% endfor %}}{{{{ ns.x|length }}}}"
            )
        };
        for attack in [
            "{{ 'a\nb'|indent(99999999999) }}",
            "{{ [1]|batch(99999999999, 'x')|list }}",
            "{{ [1]|slice(99999999999)|list }}",
            "{{ ('a' * 99999)|replace('', 'b' * 99999) }}",
            "{{ (('a' * 99999).split('')|join('b' * 99999))|length }}",
            &doubled("'aaaaaaaaaaaaaaaa'", "~"),
            &doubled("[1]", "+"),
        ] {
            check(attack, PATIENT, &want);
        }
    }

    #[test]
    fn the_child_shares_neither_files_nor_terminal_with_its_parent() {
        let (mut ours, theirs) = UnixStream::pair().expect("sockets");
        let template = template("good", PATIENT).expect("compiles");
        drop(theirs);
        // Were it open in the child, this would wait.
        ours.set_read_timeout(Some(Duration::from_secs(30))).expect("a socket");
        assert_eq!(ours.read(&mut [0]).expect("the end of the file"), 0);
        let pid = template.child.lock().expect("not poisoned").as_ref().expect("a child").child.pid();
        let session = |pid: i32| rustix::process::getsid(rustix::process::Pid::from_raw(pid)).ok();
        assert_ne!(session(pid), session(0));
    }

    #[test]
    fn messages_that_need_more_memory_get_another_child() {
        let template = template("{{ messages[0].content|length }}", PATIENT).expect("compiles");
        let pid = || template.child.lock().expect("not poisoned").as_ref().expect("a child").child.pid();
        let first = pid();
        let long = "x".repeat(USUAL_CONTENT as usize + 1);
        assert_eq!(render(&template, &long), Ok(long.len().to_string()));
        let second = pid();
        assert_ne!(first, second);
        assert_eq!(render(&template, "x"), Ok("1".into()));
        assert_eq!(pid(), second);
    }

    #[test]
    fn a_template_that_nests_too_deeply_is_ended() {
        let limits = Limits { memory_bytes: 4 << 30, ..PATIENT };
        check("{% set ns = namespace() %}{% set ns.x = ns %}{{ ns ~ '' }}", limits, &ChatError::TooDeep);
    }
}
