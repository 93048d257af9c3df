//! How an instrument ends: with its report, and with exit status 1 if there is a fault in it.

use std::fmt::Display;

use anyhow::{Error, Result, anyhow};
use load::findings::{Findings, ReportWithFindings};
use serde::Serialize;

use crate::console::{OutputError, say};

/// Prints the report and what was found.
///
/// # Errors
/// Something is wrong with the run. That comes first: it is told on standard error also when the
/// report could not be printed.
pub(super) fn conclude<R: Serialize + Display>(
    report: &R,
    findings: &Findings,
    json: bool,
) -> Result<()> {
    let text = match json {
        true => serde_json::to_string(&ReportWithFindings { report, findings })?,
        false => format!("{report}{findings}"),
    };
    let said = say(text.trim_end());
    match findings.failure() {
        Some(failure) => Err(Error::msg(failure)),
        None => Ok(said?),
    }
}

/// The end of an instrument whose lines nobody reads any more, which is a good one for other
/// commands.
pub(super) fn unchecked(error: Error) -> Error {
    match error.downcast_ref() {
        Some(OutputError::Closed) => {
            anyhow!("standard output was closed before the end, so nothing was checked")
        }
        _ => error,
    }
}
