//! `longhand completions` and `longhand man`: what shells and `man` need, made from the arguments.

mod words;

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::{Args, Command};
use clap_complete::Shell;
use clap_mangen::Man;
use longhand::files::atomic_file::{self, Access};
pub use words::complete;

use crate::app::App;

/// Print the completions of a shell.
///
/// For example, for bash: longhand completions bash > ~/.local/share/bash-completion/completions/longhand; for fish:
/// ~/.config/fish/completions/longhand.fish; for zsh: a file _longhand in a folder of $fpath. In these shells the names of
/// models, conversations, documents, saved prompts, policies, shapes and GPUs are completed too.
#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

/// Print the manual page of the program or of a command, or write those of all commands into a folder.
#[derive(Debug, Args)]
pub struct ManArgs {
    /// The name of a command; or a folder, which is made if it does not exist, for example ~/.local/share/man
    #[arg(value_name = "COMMAND|FOLDER")]
    folder: Option<PathBuf>,
}

/// Runs `longhand completions`. `command` is all of `longhand`.
pub fn run_completions(app: &App, args: &CompletionsArgs, command: &Command) -> Result<()> {
    let script = match args.shell {
        Shell::Bash => include_str!("longhand.bash"),
        Shell::Zsh => include_str!("longhand.zsh"),
        Shell::Fish => include_str!("longhand.fish"),
        // Commands and flags only.
        other => {
            let mut script = Vec::new();
            clap_complete::generate(other, &mut without_hidden(command), "longhand", &mut script);
            return Ok(app.console.print(&String::from_utf8(script)?)?);
        }
    };
    Ok(app.console.print(script)?)
}

/// A command without its hidden arguments, which clap_complete would complete.
fn without_hidden(command: &Command) -> Command {
    // clap takes only names that live as long as the program. Each command is copied once in a run.
    let name: &'static str = command.get_name().to_owned().leak();
    Command::new(name)
        .about(command.get_about().cloned().unwrap_or_default())
        .args(command.get_arguments().filter(|argument| !argument.is_hide_set()).cloned())
        .subcommands(command.get_subcommands().map(without_hidden))
}

/// Runs `longhand man`. `command` is all of `longhand`.
pub fn run_man(app: &App, args: &ManArgs, mut command: Command) -> Result<()> {
    command.build();
    let page_of = |command: &Command| {
        let mut page = Vec::new();
        Man::new(command.clone()).render(&mut page)?;
        Ok::<_, anyhow::Error>(app.console.print(&String::from_utf8(page)?)?)
    };
    let Some(folder) = &args.folder else { return page_of(&command) };
    // As `man` takes the name of what it explains.
    let named = folder.to_str().and_then(|name| command.find_subcommand(name));
    if let Some(command) = named.filter(|_| !folder.exists()) {
        return page_of(command);
    }
    // `man` looks for pages in the folder man1 of a folder such as ~/.local/share/man.
    let folder = match folder.file_name().is_some_and(|name| name == "man") {
        true => folder.join("man1"),
        false => folder.clone(),
    };
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot write {}", folder.display()))?;
    let pages = write_pages(&folder, &command)?;
    app.console.note(&format!("{pages} pages are in {}", folder.display()));
    Ok(())
}

/// Writes the pages of a command and its subcommands. Returns their number.
fn write_pages(folder: &Path, command: &Command) -> Result<usize> {
    let man = Man::new(command.clone());
    let path = folder.join(man.get_filename());
    atomic_file::write(&path, Access::Everyone, |file| {
        let mut page = Vec::new();
        man.render(&mut page)?;
        file.write_all(&page)
    })
    .with_context(|| format!("cannot write {}", path.display()))?;
    let mut subcommands = command.get_subcommands().filter(|command| command.get_name() != "help");
    subcommands.try_fold(1, |pages, command| Ok(pages + write_pages(folder, command)?))
}
