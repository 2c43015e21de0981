//! Runs a chat template in a child process ([`fork`](fork::Child)), so that a hostile template can neither run
//! forever nor take all memory nor end the program.
//!
//! The child compiles the template when it starts and then renders one conversation after another. If it
//! exceeds a limit or crashes, the next rendering starts a new one.

use std::collections::BTreeMap;
use std::io::{self, BufReader, BufWriter};
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use chrono::{DateTime, FixedOffset};
use fork::{Child, Ending, MemoryLimit};

use super::environment::{self, Compiled, Variable};
use super::form::Forms;
use super::{ChatError, Message, wire};

/// What compiling or rendering may take. Long messages add to it, because they are copied a few times.
#[derive(Debug, Clone, Copy)]
struct Limits {
    /// Wall-clock time without messages.
    time: Duration,
    /// Memory without messages.
    memory_bytes: u64,
}

const LIMITS: Limits = Limits { time: Duration::from_secs(10), memory_bytes: 512 << 20 };
/// More memory for each byte of the messages, in bytes.
const MEMORY_PER_CONTENT: u64 = 8;
/// Bytes of the messages for which there is another microsecond. This is a tenth of the usual speed.
const CONTENT_PER_MICROSECOND: u64 = 10;

/// A compiled template.
#[derive(Debug)]
pub(super) struct Template {
    source: String,
    now: DateTime<FixedOffset>,
    limits: Limits,
    /// `None` after the child has exceeded a limit.
    child: Mutex<Option<Child>>,
}

impl Template {
    /// Compiles a template. `now` is the time of `strftime_now`; it is the same for a whole conversation, so
    /// that the beginning of the prompt never changes.
    pub(super) fn compile(source: &str, now: DateTime<FixedOffset>) -> Result<Template, ChatError> {
        Template::with_limits(source, now, LIMITS)
    }

    fn with_limits(source: &str, now: DateTime<FixedOffset>, limits: Limits) -> Result<Template, ChatError> {
        let source = environment::prepare(source)?;
        let template = Template { source, now, limits, child: Mutex::new(None) };
        let child = template.start()?;
        Ok(Template { child: Mutex::new(Some(child)), ..template })
    }

    /// Renders the template with these variables and messages, whose contents have these forms.
    pub(super) fn render(
        &self,
        variables: &BTreeMap<String, Variable>,
        messages: &[Message],
        forms: Forms,
    ) -> Result<String, ChatError> {
        let mut slot = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        let child = match slot.take().and_then(Child::if_running) {
            Some(child) => child,
            None => self.start()?,
        };
        let content_bytes = wire::content_bytes(messages);
        let ask = |child: &Child| {
            let deadline = Instant::now() + self.limits.time(content_bytes as u64);
            let mut out = BufWriter::new(child.channel(deadline));
            wire::write_request(&mut out, variables.iter(), messages, forms)?;
            let max_output = environment::max_output_bytes(content_bytes);
            wire::read_reply(&mut BufReader::new(child.channel(deadline)), max_output)
        };
        match ask(&child) {
            Ok(reply) => {
                *slot = Some(child);
                reply
            }
            Err(e) => Err(self.limits.exceeded(&e, child.end(), content_bytes as u64)),
        }
    }

    /// Starts a child, which compiles the template.
    fn start(&self) -> Result<Child, ChatError> {
        let child = Child::start(environment::STACK_BYTES, |socket| {
            // An error means that the parent is gone.
            let _ = serve(&socket, &self.source, self.now, self.limits);
        });
        let child = child.map_err(|e| ChatError::NoProcess { why: e.to_string() })?;
        let deadline = Instant::now() + self.limits.time;
        match wire::read_reply(&mut BufReader::new(child.channel(deadline)), 0) {
            Ok(reply) => reply.map(|_| child),
            Err(e) => Err(self.limits.exceeded(&e, child.end(), 0)),
        }
    }
}

/// What the child does: it compiles the template, then renders the conversations that it reads from `socket`,
/// until the parent closes it.
fn serve(
    mut socket: &UnixStream,
    source: &str,
    now: DateTime<FixedOffset>,
    limits: Limits,
) -> io::Result<()> {
    // For a parent that is gone and cannot keep the deadline.
    let seconds = |content_bytes| Some(limits.time(content_bytes).as_secs() as u32 + 2);
    fork::limit_time(seconds(0));
    let compiled = MemoryLimit::new().and_then(|memory| {
        memory.set(limits.memory_bytes(0))?;
        Ok((memory, Compiled::new(source.to_owned(), now)))
    });
    let (memory, compiled) = match compiled {
        Ok((memory, Ok(compiled))) => (memory, compiled),
        Ok((_, Err(error))) => return wire::write_reply(&mut socket, &Err(error)),
        Err(e) => {
            let why = format!("its memory cannot be limited: {e}");
            return wire::write_reply(&mut socket, &Err(ChatError::Failed { why }));
        }
    };
    let mut reply = Ok(String::new());
    loop {
        fork::limit_time(None);
        wire::write_reply(&mut BufWriter::new(socket), &reply)?;
        let content_bytes = wire::read_number(&mut socket)?;
        memory.set(limits.memory_bytes(content_bytes))?;
        let request = wire::read_request(&mut BufReader::new(socket))?;
        fork::limit_time(seconds(content_bytes));
        reply = compiled.render(request.variables, request.messages);
    }
}

impl Limits {
    /// Maximum time for a conversation whose messages have `content_bytes`.
    fn time(&self, content_bytes: u64) -> Duration {
        self.time + Duration::from_micros(content_bytes / CONTENT_PER_MICROSECOND)
    }

    /// Maximum memory for a conversation whose messages have `content_bytes`.
    fn memory_bytes(&self, content_bytes: u64) -> u64 {
        self.memory_bytes.saturating_add(content_bytes.saturating_mul(MEMORY_PER_CONTENT))
    }

    /// The error for a child that was ended because of `error`.
    fn exceeded(&self, error: &io::Error, ending: Ending, content_bytes: u64) -> ChatError {
        let failed = |why: &str| ChatError::Failed { why: why.to_owned() };
        match (ending, error.kind()) {
            (Ending::OutOfMemory, _) => ChatError::OutOfMemory { bytes: self.memory_bytes(content_bytes) },
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

#[cfg(test)]
mod tests {
    use std::io::Read;

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
        let pid = |template: &Template| template.child.lock().expect("not poisoned").as_ref().map(Child::pid);
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
        let want = ChatError::OutOfMemory { bytes: 64 << 20 };
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
        let pid = template.child.lock().expect("not poisoned").as_ref().map(Child::pid).expect("a child");
        let session = |pid: i32| rustix::process::getsid(rustix::process::Pid::from_raw(pid)).ok();
        assert_ne!(session(pid), session(0));
    }

    #[test]
    fn a_template_that_nests_too_deeply_is_ended() {
        let limits = Limits { memory_bytes: 4 << 30, ..PATIENT };
        check("{% set ns = namespace() %}{% set ns.x = ns %}{{ ns ~ '' }}", limits, &ChatError::TooDeep);
    }
}
