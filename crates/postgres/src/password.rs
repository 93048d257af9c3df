//! Where a password comes from, at each connect: the URL or PGPASSWORD, a file of its own, or a
//! file as libpq's `.pgpass`.

use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use tokio::fs;
use tokio_postgres::config::Host;
use zeroize::Zeroizing;

use crate::config::PostgresConfig;
use crate::error::PostgresError;

pub(crate) async fn read(
    config: &PostgresConfig,
) -> Result<Option<Zeroizing<String>>, PostgresError> {
    if let Some(file) = &config.password_file {
        let text = read_file(file).await?.ok_or_else(|| missing(file))?;
        return Ok(Some(Zeroizing::new(text.trim_end_matches(['\r', '\n']).to_owned())));
    }
    if config.password.is_some() {
        return Ok(config.password.clone());
    }
    let Some(file) = &config.pass_file else { return Ok(None) };
    let Some(lines) = read_file(file).await? else { return Ok(None) };
    Ok(find(&lines, config))
}

/// `None` where there is no such file.
async fn read_file(path: &Path) -> Result<Option<Zeroizing<String>>, PostgresError> {
    let fails = |why: String| {
        PostgresError::Unusable(format!("the password in {} cannot be read: {why}", path.display()))
    };
    let metadata = match fs::metadata(path).await {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(fails(error.to_string())),
    };
    // What orchestrators mount as secrets may be read by a group, never by everybody.
    if metadata.mode() & 0o007 != 0 {
        return Err(fails("everybody may read it; chmod o= first".into()));
    }
    match fs::read_to_string(path).await {
        Ok(text) => Ok(Some(Zeroizing::new(text))),
        Err(error) => Err(fails(error.to_string())),
    }
}

fn missing(path: &Path) -> PostgresError {
    PostgresError::Unusable(format!("there is no file {} with the password", path.display()))
}

/// The password of the first line `host:port:database:user:password` that fits; `*` fits all.
fn find(lines: &str, config: &PostgresConfig) -> Option<Zeroizing<String>> {
    let postgres = &config.postgres;
    let host = match postgres.get_hosts().first() {
        Some(Host::Tcp(name)) => name.as_str(),
        _ => "localhost",
    };
    let port = postgres.get_ports().first().unwrap_or(&5432).to_string();
    let user = postgres.get_user().unwrap_or_default();
    let database = postgres.get_dbname().unwrap_or(user);
    lines.lines().filter(|line| !line.starts_with('#')).find_map(|line| {
        let fields = fields(line);
        let [a, b, c, d, password] = fields.as_slice() else { return None };
        let wanted = [(a, host), (b, &port), (c, database), (d, user)];
        let fits = wanted.iter().all(|(field, value)| *field == "*" || field == value);
        fits.then(|| Zeroizing::new(password.clone()))
    })
}

/// Colons part them; a backslash takes away the meaning of what follows.
fn fields(line: &str) -> Zeroizing<Vec<String>> {
    let mut fields = Zeroizing::new(vec![String::new()]);
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        let c = match c {
            ':' if fields.len() < 5 => {
                fields.push(String::new());
                continue;
            }
            '\\' => chars.next().unwrap_or(c),
            c => c,
        };
        if let Some(field) = fields.last_mut() {
            field.push(c);
        }
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_line_that_fits_has_the_password() {
        let config = PostgresConfig::from_url("postgresql://u@h:5433/d").unwrap();
        let lines =
            "# h:5433:d:u:no\nh:5432:d:u:no\nh:5433:other:u:no\n*:5433:*:u:a\\:b:c\nh:*:*:*:no";
        assert_eq!(find(lines, &config).as_deref().map(String::as_str), Some("a:b:c"));
        assert_eq!(find("x:*:*:*:no\n", &config), None);
        let socket = PostgresConfig::from_url("host=/run user=u").unwrap();
        assert!(find("localhost:5432:u:u:p", &socket).is_some());
    }
}
