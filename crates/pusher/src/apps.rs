//! The file of apps: a JSON list, which is taken as a whole or not at all.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::value::RawValue;
use thiserror::Error;

use crate::app::App;
use crate::limits::{APPS_FILE_BYTES_MAX, APPS_MAX, SECRET_BYTES_MIN};
use crate::written::line_of;

/// All apps, by what they are asked for.
#[derive(Clone, Debug, Default)]
pub struct Apps {
    by_key: HashMap<String, Arc<App>>,
    by_id: HashMap<String, Arc<App>>,
}

/// Why the file is not taken. The apps before stay.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("line {line}: {what}")]
pub struct AppsFault {
    /// Where, from 1.
    pub line: usize,
    /// What is wrong, as a sentence that has nothing of a secret.
    pub what: String,
}

impl Apps {
    /// Reads the file. Short secrets are for servers that nobody but their machine reaches:
    /// `is_loopback` says whether this is one.
    ///
    /// # Errors
    /// Something in it is wrong; none of it is taken.
    pub fn parse(text: &[u8], is_loopback: bool) -> Result<Apps, AppsFault> {
        let fault = |line, what: &str| AppsFault { line, what: what.to_owned() };
        if text.len() as u64 > APPS_FILE_BYTES_MAX {
            return Err(fault(1, "The file is longer than 1 MiB."));
        }
        let text = str::from_utf8(text).map_err(|error| {
            let before = &text[..error.valid_up_to()];
            let line = 1 + before.iter().filter(|&&byte| byte == b'\n').count();
            fault(line, "The file is not UTF-8.")
        })?;
        let list: Vec<&RawValue> = serde_json::from_str(text)
            .map_err(|error| fault(error.line(), "The file is not a JSON list of apps."))?;
        if list.len() > APPS_MAX {
            return Err(fault(1, "The file has more than 1,000 apps."));
        }
        let mut apps = Apps::default();
        for json in list.into_iter().map(RawValue::get) {
            let line = line_of(text, json);
            let app = App::parse(json)
                .map_err(|(below, what)| AppsFault { line: line + below - 1, what })?;
            if !app.is_secret_long && !is_loopback {
                let what = format!(
                    "\"secret\" has less than {SECRET_BYTES_MIN} bytes, and others than this \
                     machine can connect. Make one with `openssl rand -hex 32`."
                );
                return Err(AppsFault { line, what });
            }
            apps.insert(app).map_err(|what| AppsFault { line, what })?;
        }
        Ok(apps)
    }

    fn insert(&mut self, app: App) -> Result<(), String> {
        let app = Arc::new(app);
        if self.by_key.insert(app.key.clone(), Arc::clone(&app)).is_some() {
            return Err(format!("The key {} is there twice.", app.key));
        }
        match self.by_id.insert(app.id.clone(), Arc::clone(&app)) {
            Some(_) => Err(format!("The id {} is there twice.", app.id)),
            None => Ok(()),
        }
    }

    /// The app that clients call so.
    pub fn by_key(&self, key: &str) -> Option<&Arc<App>> {
        self.by_key.get(key)
    }

    /// The app that the HTTP API calls so.
    pub fn by_id(&self, id: &str) -> Option<&Arc<App>> {
        self.by_id.get(id)
    }

    /// All of them, in no order.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<App>> {
        self.by_id.values()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }
}

#[cfg(test)]
mod tests;
