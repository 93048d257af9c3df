//! Rows of what is told of a run.

use std::collections::BTreeMap;
use std::fmt::{self, Display};

use figures::numbers::grouped;

pub(crate) fn row(f: &mut fmt::Formatter<'_>, name: &str, value: &str) -> fmt::Result {
    writeln!(f, "  {name:14}{value}")
}

pub(crate) fn by<K: Display>(total: u64, parts: &BTreeMap<K, u64>) -> String {
    let parts: Vec<String> =
        parts.iter().map(|(reason, count)| format!("{reason} {}", grouped(*count))).collect();
    match parts.len() {
        0 => grouped(total),
        _ => format!("{} ({})", grouped(total), parts.join(", ")),
    }
}
