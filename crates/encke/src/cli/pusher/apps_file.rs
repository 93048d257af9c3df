//! The file of apps, as commands read it and add to it. What stands in it stays as it was written.
//!
//! A change is made under a lock of the directory, on a new file that takes the place of the old
//! one when it is on the disk. So a server never reads half of one.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use pusher::Apps;
use serde_json::json;
use serde_json::value::RawValue;
use sys::plain_file;

/// An app to be added.
pub(super) struct NewApp {
    /// Its id, unless the next free one will do.
    pub(super) id: Option<String>,
    pub(super) key: String,
    pub(super) secret: String,
    pub(super) client_events: bool,
    /// What ids begin with that are shared with its channels.
    pub(super) ids: Option<String>,
}

/// The apps in the file. Short secrets are no reason to refuse it here: where they are good enough
/// is for the server to say.
pub(super) fn read(path: &Path) -> Result<Apps> {
    let text = fs::read(path).with_context(|| cannot("read", path))?;
    parse(path, &text)
}

fn parse(path: &Path, text: &[u8]) -> Result<Apps> {
    Apps::parse(text, true).with_context(|| format!("nothing is done with {}", path.display()))
}

/// Adds `app` to the file, which is made where there is none; its id.
pub(super) fn add(path: &Path, app: &NewApp) -> Result<String> {
    // The file itself is replaced, not a link that leads to it.
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
    let dir = dir.map_or_else(|| PathBuf::from("."), Path::to_owned);
    let lock = File::open(&dir).with_context(|| cannot("open the directory of", &path))?;
    lock.lock().with_context(|| cannot("lock the directory of", &path))?;
    let text = match fs::read_to_string(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => "[]".to_owned(),
        read => read.with_context(|| cannot("read", &path))?,
    };
    let apps = parse(&path, text.as_bytes())?;
    let id = app.id.clone().unwrap_or_else(|| free_id(&apps));
    if apps.by_id(&id).is_some() {
        bail!("{} has an app {id} already: give another --id, or none", path.display());
    }
    let mut written: Vec<&RawValue> = serde_json::from_str(&text)?;
    let mut new = json!({ "id": id, "key": app.key, "secret": app.secret });
    if app.client_events {
        new["client_events"] = true.into();
    }
    if let Some(ids) = &app.ids {
        new["ids"] = ids.as_str().into();
    }
    let new = RawValue::from_string(new.to_string())?;
    written.push(&new);
    let lines: Vec<&str> = written.into_iter().map(RawValue::get).collect();
    let text = format!("[\n{}\n]\n", lines.join(",\n"));
    // What a server would refuse is not written: an id with letters, a file that is too long.
    parse(&path, text.as_bytes())?;
    replace(&path, &dir, &text).with_context(|| cannot("write", &path))?;
    Ok(id)
}

/// One more than the greatest id, or 1. Of ids past 64 bits there is none in use.
fn free_id(apps: &Apps) -> String {
    let greatest = apps.iter().filter_map(|app| app.id.parse::<u64>().ok()).max();
    greatest.unwrap_or(0).saturating_add(1).to_string()
}

fn replace(path: &Path, dir: &Path, text: &str) -> io::Result<()> {
    let name = path.file_name().ok_or(ErrorKind::InvalidInput)?;
    let new = dir.join(format!("{}.new", name.to_string_lossy()));
    let mut file = plain_file::create(&new, 0o600)?;
    // The server's user reads on what it has read, also where root runs the command.
    let owned_by = if path.exists() { path } else { dir };
    plain_file::give_to_owner(&file, owned_by)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&new, path)?;
    File::open(dir)?.sync_all()
}

fn cannot(what: &str, path: &Path) -> String {
    format!("cannot {what} {}; check --file, owner and mode", path.display())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn app(id: Option<&str>, key: &str) -> NewApp {
        let secret = format!("a-secret-of-some-length-{key}");
        let (id, key, ids) = (id.map(str::to_owned), key.to_owned(), Some("chat:".to_owned()));
        NewApp { id, key, secret, client_events: true, ids }
    }

    #[test]
    fn app_is_added_and_what_was_there_stays_as_it_was_written() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("apps.json");
        assert_eq!(add(&path, &app(None, "a")).unwrap(), "1");
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let odd = "[ {\n\"key\":\"b\", \"id\":\"41\",\n \"secret\":\"short\"} ]";
        fs::write(&path, odd).unwrap();
        assert_eq!(add(&path, &app(None, "c")).unwrap(), "42");
        assert_eq!(add(&path, &app(Some("7"), "d")).unwrap(), "7");
        let apps = read(&path).unwrap();
        assert_eq!(apps.len(), 3);
        assert!(apps.by_key("c").is_some_and(|app| app.id == "42" && app.has_client_events));
        assert_eq!(apps.by_key("c").and_then(|app| app.ids.as_deref()), Some("chat:"));
        let text = fs::read_to_string(&path).unwrap();
        assert!(
            text.contains("{\n\"key\":\"b\", \"id\":\"41\",\n \"secret\":\"short\"}"),
            "{text}"
        );
        assert!(add(&path, &app(Some("7"), "e")).is_err(), "the id is taken");
        assert!(add(&path, &app(Some("x"), "e")).is_err(), "no server would read it");
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
        fs::write(&path, "{}").unwrap();
        assert!(add(&path, &app(None, "e")).is_err() && read(&path).is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "{}", "a file of something else is left");
    }
}
