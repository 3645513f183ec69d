//! `sandkeeper completions` and `sandkeeper man`: what packages install beside the program.

use std::path::PathBuf;

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use super::output::write;
use super::{Arguments, Outcome, Trouble};

#[derive(Debug, Args)]
pub(super) struct CompletionsArguments {
    /// The shell to complete in
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

#[derive(Debug, Args)]
pub(super) struct ManArguments {
    /// The command to tell about [default: the program]
    #[arg(value_name = "COMMAND", conflicts_with = "into")]
    command: Option<String>,
    /// Write a page for the program and one for each command into this folder
    #[arg(long, value_name = "FOLDER")]
    into: Option<PathBuf>,
}

/// The whole command line, without what is not meant for people.
fn command_line() -> clap::Command {
    let mut whole = Arguments::command();
    whole.build();
    whole
}

pub(super) fn completions(arguments: &CompletionsArguments) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut command_line(), "sandkeeper", &mut script);
    write(&String::from_utf8_lossy(&script));
    Outcome::Done
}

pub(super) fn man(arguments: &ManArguments) -> Result<Outcome, Trouble> {
    let whole = command_line();
    if let Some(folder) = &arguments.into {
        std::fs::create_dir_all(folder)?;
        clap_mangen::generate_to(whole, folder)?;
        return Ok(Outcome::Done);
    }
    let told = match &arguments.command {
        None => whole,
        Some(name) => {
            let found =
                whole.get_subcommands().find(|command| command.get_name() == name && !command.is_hide_set());
            found.cloned().ok_or_else(|| Trouble::NoSuchCommand(name.clone()))?
        }
    };
    let mut page = Vec::new();
    clap_mangen::Man::new(told).render(&mut page)?;
    write(&String::from_utf8_lossy(&page));
    Ok(Outcome::Done)
}
