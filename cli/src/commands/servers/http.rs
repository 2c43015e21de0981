//! `longhand serve`: answers for other programs, by HTTP.

use std::env;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use longhand::error::Shortage;
use longhand::setup::another_session;
use longhand::{Chat, ChatFormat, ChatOptions, EngineError, Model, Session, SetupOptions};
use serve::{Address, Keys, Server, ServerError, ServerOptions, Service, ServiceOptions};
use terminal::{format, values};

use crate::app::{App, Purpose};
use crate::args::answer::DraftArg;
use crate::args::disk::DiskArgs;
use crate::args::documents::DocumentArgs;
use crate::args::session::SessionArgs;
use crate::args::sources::SourcesArgs;
use crate::config::known::KEY_VARIABLE;
use crate::failure::{Failure, Hinted as _};
use crate::models::args::{ModelArg, ModelArgs};
use crate::session::documents::{Documents, plural, read_utf8};
use crate::session::turn;

/// Answer other programs: a server with OpenAI's, Anthropic's and Ollama's interfaces.
///
/// Programs of this machine connect to http://127.0.0.1:8080 (with OpenAI's interface: http://127.0.0.1:8080/v1) and need no
/// key. What a conversation has read is not read again, and nothing of a text is cut: what does not fit is refused. Ctrl-C
/// ends the server.
#[derive(Debug, Args)]
pub struct ServeArgs {
    #[command(flatten)]
    argument: ModelArg,
    /// Document that conversations are about: a file, a folder or a pattern; can be repeated. It is read before the first
    /// request, and comes before the first message of each conversation
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Address to listen on; 0.0.0.0 is all, which needs a key. A path that ends with .sock is a UNIX socket
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1", help_heading = "Server")]
    host: String,
    /// Port; 0 is any that is free
    #[arg(long, value_name = "PORT", default_value_t = 8080, help_heading = "Server")]
    port: u16,
    /// Key that every request must have; can be repeated. Other users of this machine can see it: a file, or the variable
    /// LONGHAND_API_KEY, is safer
    #[arg(long = "api-key", value_name = "KEY", help_heading = "Server")]
    keys: Vec<String>,
    /// File with keys, one in a line
    #[arg(long, value_name = "FILE", help_heading = "Server")]
    api_key_file: Option<PathBuf>,
    /// Conversations that are answered at the same time, also -np. Each has a cache of its own, as large as --ctx-size says.
    /// Their next tokens are computed together. With one, requests wait for each other
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = values::positive, help_heading = "Server")]
    parallel: usize,
    /// Requests that may wait for one of them; further ones are refused
    #[arg(long, value_name = "N", default_value_t = 64, help_heading = "Server")]
    max_waiting: usize,
    /// Name of the model in answers [default: its own name]
    #[arg(long, value_name = "NAME", help_heading = "Server")]
    alias: Option<String>,
    /// Name by which clients reach the server, besides localhost; can be repeated. Other names are refused: a web page could
    /// have made them up
    #[arg(long = "allow-host", value_name = "NAME", help_heading = "Server")]
    hosts: Vec<String>,
    #[command(flatten)]
    sources: SourcesArgs,
    #[command(flatten)]
    documents: DocumentArgs,
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    session: SessionArgs,
    #[command(flatten)]
    disk: DiskArgs,
    #[command(flatten)]
    draft: DraftArg,
    /// Read long documents without asking
    #[arg(short = 'y', long)]
    yes: bool,
}

/// How long those that are answered have to end when the server does.
const PATIENCE: Duration = Duration::from_secs(10);

/// Runs the command.
pub fn run(app: &App, args: &ServeArgs) -> Result<()> {
    let address = address(args)?;
    let options = ServerOptions { keys: keys(args)?, hosts: args.hosts.clone(), ..ServerOptions::default() };
    let source = args.model.source(app, args.argument.path.as_deref())?;
    let setup = args.session.apply(args.model.setup_options(app)?)?;
    let setup = SetupOptions { sessions: args.parallel, record_attention: args.sources.are_on(), ..setup };
    let setup = args.draft.apply(setup);
    app.introduce(&source, Purpose::Serve);
    let model = app.open(source)?;
    // Before documents are read: the process that this starts would keep a copy of them.
    let chat_format = model.chat_format()?;
    app.note_template(chat_format);
    // Before the model is loaded: who starts servers looks whether they are there.
    let server = Server::start(&address, options).map_err(|error| cannot_listen(args, error))?;
    app.interrupt.end_in_order();
    let served = serve(app, args, &server, &model, chat_format, setup);
    server.stop(PATIENCE);
    served
}

/// Loads the model, reads the documents, and answers until Ctrl-C.
fn serve(
    app: &App,
    args: &ServeArgs,
    server: &Server,
    model: &Arc<Model>,
    chat_format: &ChatFormat,
    setup: SetupOptions,
) -> Result<()> {
    let documents = Documents::read(&args.files, &args.documents.options()?)?;
    let preamble = documents.preamble(app, chat_format, None)?;
    let prompt = if args.files.is_empty() { 0 } else { preamble.min_tokens() };
    let cache = args.disk.documents_or_note(&app.console).filter(|cache| match cache.check_writable() {
        Ok(()) => true,
        Err(error) => {
            app.console.note(&format!("note: nothing is kept on the disk: {error}"));
            false
        }
    });
    let session = start(app, args, model, &setup, prompt)?;
    let mut chat = Chat::new(session, ChatOptions { preamble, ..ChatOptions::default() })?;
    if turn::begin_documents(app, &mut chat, cache.as_ref(), args.yes)?.is_none() {
        turn::read_documents_with_notes(app, &mut chat, cache.as_ref())?;
    }
    let mut sessions = vec![chat.into_session()];
    while sessions.len() < args.parallel {
        let another = another_session(&sessions[0], prompt);
        sessions.push(another.map_err(|error| too_many(args, sessions.len(), error))?);
    }
    let context = sessions[0].options().context;
    let name = name(args, model)?;
    let served = serve::Documents::new(documents.names(), documents.text(), documents.outline().clone());
    let options = ServiceOptions {
        name: name.clone(),
        documents: Arc::new(served),
        max_waiting: args.max_waiting,
        cache,
    };
    let service = Service::start(sessions, options)?;
    server.set_service(service);
    app.console.print(&format!(
        "{name} answers at {}, {} with room for {} tokens each\n",
        server.address(),
        plural(args.parallel, "conversation"),
        format::count(context)
    ))?;
    // Until Ctrl-C or SIGTERM.
    app.interrupt.until_pressed(|stop| {
        while !stop.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_millis(100));
        }
    })?;
    app.console.note("the server ends");
    Ok(())
}

/// The session that the others are like. What does not fit is said with the number that does.
fn start(
    app: &App,
    args: &ServeArgs,
    model: &Arc<Model>,
    setup: &SetupOptions,
    prompt: usize,
) -> Result<Session> {
    if args.parallel == 1 {
        return app.start_within_memory(model, setup, prompt);
    }
    match app.resolve(model, setup, prompt).and_then(|setup| app.start(&setup)) {
        Err(error @ EngineError::Memory(Shortage { needed, free, .. })) => {
            let fit = free / (needed / args.parallel).max(1);
            Err(too_many(args, fit, error).into())
        }
        started => Ok(started?),
    }
}

/// So many conversations as were asked for do not fit, but `fit` do.
fn too_many(args: &ServeArgs, fit: usize, error: EngineError) -> Failure {
    let hint = match fit {
        0 => "give a smaller --ctx-size, or smaller types with -ctk and -ctv".to_owned(),
        fit => format!("give --parallel {fit}, a smaller --ctx-size, or smaller types with -ctk and -ctv"),
    };
    let error = error.into_failure();
    Failure::new(format!("{} do not fit: {error}", plural(args.parallel, "conversation")), hint)
}

/// The name of the model in answers.
fn name(args: &ServeArgs, model: &Model) -> Result<String, Failure> {
    match &args.alias {
        Some(alias) if alias.trim().is_empty() || alias.chars().any(char::is_control) => {
            Err(Failure::usage("--alias is no name", "give a name of letters, digits and signs"))
        }
        Some(alias) => Ok(alias.clone()),
        None => Ok(model.name().chars().filter(|c| !c.is_control()).collect()),
    }
}

fn address(args: &ServeArgs) -> Result<Address, Failure> {
    if args.host.ends_with(".sock") {
        return Ok(Address::Unix(PathBuf::from(&args.host)));
    }
    let ip = match args.host.as_str() {
        "localhost" => IpAddr::from([127, 0, 0, 1]),
        host => host.trim_start_matches('[').trim_end_matches(']').parse().map_err(|_| {
            Failure::usage(
                format!("--host {host:?} is no address"),
                "give an IP address of this machine, such as 127.0.0.1 or 0.0.0.0, or the path of a UNIX socket that ends \
                 with .sock",
            )
        })?,
    };
    Ok(Address::Tcp(SocketAddr::new(ip, args.port)))
}

fn keys(args: &ServeArgs) -> Result<Keys> {
    let file = args.api_key_file.as_deref().map(read_utf8).transpose()?;
    let variable = env::var_os(KEY_VARIABLE).map(|value| {
        let key = value.into_string().ok().filter(|key| !key.trim().is_empty());
        key.ok_or_else(|| Failure::usage(format!("{KEY_VARIABLE} is no key"), "set it to a key, or unset it"))
    });
    let variable = variable.transpose()?;
    let lines = file.iter().flat_map(|text| text.lines());
    let given = args.keys.iter().map(String::as_str).chain(variable.as_deref());
    let keys = Keys::new(given.chain(lines));
    if keys.is_empty() && (file.is_some() || !args.keys.is_empty()) {
        return Err(Failure::usage(
            "the keys are blank",
            "write one key in each line of the file, or leave --api-key and --api-key-file out",
        )
        .into());
    }
    Ok(keys)
}

fn cannot_listen(args: &ServeArgs, error: ServerError) -> Failure {
    let hint = match &error {
        ServerError::NoKey(_) => {
            "give a key with --api-key-file FILE, and to clients the same one; or listen on 127.0.0.1, where only programs \
             of this machine connect"
        }
        ServerError::Bind { .. } if args.host.ends_with(".sock") => {
            "give a path in a folder that you may write to, where no other server listens"
        }
        _ => "give an address of this machine with --host, and a port that no other program has with --port",
    };
    Failure::new(error.to_string(), hint)
}
