//! `longhand completions` and `longhand man`: what shells and `man` need, made from the arguments.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::{Args, Command};
use clap_complete::Shell;
use clap_mangen::Man;
use longhand::atomic_file::{self, Access};

use crate::app::App;

/// Print the completions of a shell.
///
/// For example, for bash: longhand completions bash > ~/.local/share/bash-completion/completions/longhand
#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

/// Print the manual page, or write those of all commands into a folder.
#[derive(Debug, Args)]
pub struct ManArgs {
    /// An existing folder, for example ~/.local/share/man/man1
    folder: Option<PathBuf>,
}

/// Runs `longhand completions`. `command` is all of `longhand`.
pub fn run_completions(app: &App, args: &CompletionsArgs, command: &Command) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut without_hidden(command), "longhand", &mut script);
    Ok(app.console.print(&String::from_utf8(script)?)?)
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
    let Some(folder) = &args.folder else {
        let mut page = Vec::new();
        Man::new(command).render(&mut page)?;
        return Ok(app.console.print(&String::from_utf8(page)?)?);
    };
    let pages = write_pages(folder, &command)?;
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
