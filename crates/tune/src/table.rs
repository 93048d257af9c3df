//! A report for people: a table of what is compared, then what there is to do and to know, row by
//! row, then the sum of it. 80 columns, except for commands, which are copied and so not broken.

use std::fmt::{self, Display, Formatter};

use figures::numbers::grouped;

use super::check::{Check, Unit, Verdict, gigabytes};
use super::{Ends, Report};

const COLUMNS: usize = 80;

impl Verdict {
    fn as_str(self) -> &'static str {
        match self {
            Verdict::Enough => "enough",
            Verdict::NotShown => "not shown",
            Verdict::Low => "low",
            Verdict::TooLow => "too low",
        }
    }
}

impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.head(f)?;
        writeln!(f, "\n{:<32}{:>14}{:>15}", "setting", "here", "asked for")?;
        for check in &self.checks {
            row(f, check)?;
        }
        // What keeps the users out comes first.
        for verdict in [Verdict::TooLow, Verdict::Low, Verdict::NotShown] {
            for check in self.with(verdict) {
                note(f, check)?;
            }
        }
        self.sum(f)
    }
}

impl Report {
    fn head(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (users, workers) = (grouped(self.users.into()), grouped(self.workers));
        write!(f, "users {users}  cores {}  workers {workers}", self.cores)?;
        if self.ends == Ends::Both {
            let (threads, sources) = (self.listener_threads, self.listener_sources);
            write!(f, "  client threads {threads}  source addresses {sources}")?;
        }
        writeln!(f)
    }

    fn sum(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let users = grouped(self.users.into());
        let clients = match self.ends {
            Ends::Server => "",
            Ends::Both => " with their clients",
        };
        let low = self.with(Verdict::Low).count();
        match (self.fits, low) {
            (true, 0) => writeln!(f, "\n{users} users{clients} fit.")?,
            (true, _) => {
                writeln!(f, "\n{users} users{clients} fit, with the drawbacks of what is low.")?
            }
            (false, _) => {
                let most = self.most(self.ends);
                writeln!(f, "\n{users} users{clients} do not fit here; at most {most} do.")?;
            }
        }
        if self.ends == Ends::Server {
            let most = self.most(Ends::Both);
            let both = match self.users <= self.users_max_with_clients {
                true => "they fit as well".to_owned(),
                false => format!("at most {most} fit"),
            };
            writeln!(f, "With their clients on this machine, too (--with-clients), {both}.")?;
        }
        Ok(())
    }

    fn most(&self, ends: Ends) -> String {
        grouped(match ends {
            Ends::Server => self.users_max.into(),
            Ends::Both => self.users_max_with_clients.into(),
        })
    }
}

fn row(f: &mut Formatter<'_>, check: &Check) -> fmt::Result {
    let place = check.place();
    let name = match check.asked.len() {
        1 => check.name.to_owned(),
        _ => format!("{} ({})", check.name, place + 1),
    };
    let here = check.here.get(place).map_or("?".into(), |&number| amount(number, check.unit));
    let asked = check.asked.get(place).map_or("?".into(), |&number| amount(number, check.unit));
    writeln!(f, "{name:<32}{here:>14}{asked:>15}  {}", check.verdict.as_str())
}

fn amount(number: u64, unit: Unit) -> String {
    match unit {
        // Some systems set what stands for no limit.
        Unit::Count if number >= 1 << 62 => "no limit".into(),
        Unit::Count => grouped(number),
        Unit::Bytes => gigabytes(number),
    }
}

/// What there is to say about a row.
fn note(f: &mut Formatter<'_>, check: &Check) -> fmt::Result {
    writeln!(f, "\n{}: {}", check.name, check.verdict.as_str())?;
    paragraph(f, "why", check.why)?;
    if let Some(command) = &check.command {
        writeln!(f, "  {:<6}{command}", "type")?;
    }
    if let Some(hindrance) = &check.hindrance {
        paragraph(f, "but", hindrance)?;
    }
    if let Some(follows) = &check.follows {
        paragraph(f, "so", follows)?;
    }
    Ok(())
}

fn paragraph(f: &mut Formatter<'_>, name: &str, text: &str) -> fmt::Result {
    for (number, line) in lines(text, COLUMNS - 8).into_iter().enumerate() {
        writeln!(f, "  {:<6}{line}", if number == 0 { name } else { "" })?;
    }
    Ok(())
}

/// `text` in lines of at most so many columns.
pub(super) fn lines(text: &str, columns: usize) -> Vec<String> {
    debug_assert!(columns > 0);
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("there is a first line");
        if line.is_empty() {
            line.push_str(word);
        } else if line.chars().count() + 1 + word.chars().count() <= columns {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}
