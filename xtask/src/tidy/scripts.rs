//! Rules about shell scripts: there are few, and they parse.

use std::io::Write;
use std::process::{Command, Stdio};

use super::tree::{Fault, Tree};

/// Asks bash itself (`bash -n` reads without running).
pub(super) fn syntax(tree: &Tree) -> Vec<Fault> {
    let scripts = tree.files().iter().filter(|file| file.is_script());
    scripts.filter_map(|file| parse(&file.text).err().map(|why| file.fault(1, why))).collect()
}

fn parse(script: &str) -> Result<(), String> {
    let run = || {
        let mut command = Command::new("bash");
        command.arg("-n").stdin(Stdio::piped()).stderr(Stdio::piped());
        let mut bash = command.spawn()?;
        if let Some(mut stdin) = bash.stdin.take() {
            stdin.write_all(script.as_bytes())?;
        }
        bash.wait_with_output()
    };
    let output = run().map_err(|error| format!("bash could not read it: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn script_that_does_not_parse_is_caught_and_not_run() {
        let good = "#!/usr/bin/env bash\nexit 3\n";
        assert_eq!(syntax(&Tree::of(&[("a", good)])).len(), 0);
        let bad = "#!/usr/bin/env bash\nif true; then\n";
        assert_eq!(syntax(&Tree::of(&[("a", bad), ("b.sh", "("), ("c.rs", "(")])).len(), 2);
    }
}
