//! `encke completions`: what a shell needs to complete this program's command lines, made of the
//! same declaration as `--help`.

use anyhow::Result;
use clap::Args;
use clap_complete::Shell;

use crate::console::say_bytes;

/// Prints a script by which a shell completes commands and options.
///
/// The packages bring these scripts along. Who installed the program otherwise puts them where the
/// shell looks for them.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  source <(encke completions bash)
  encke completions bash > ~/.local/share/bash-completion/completions/encke
  encke completions zsh > ~/.zfunc/_encke    with that folder in $fpath
  encke completions fish > ~/.config/fish/completions/encke.fish")]
pub(crate) struct CompletionsArgs {
    /// The shell.
    shell: Shell,
}

/// Prints the script for `command`, which is the whole program.
pub(crate) fn run(args: CompletionsArgs, mut command: clap::Command) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "encke", &mut script);
    Ok(say_bytes(script.trim_ascii_end())?)
}
