//! What a stream is shown: a token, as it was given, as it stands in a file, or signed at that
//! moment.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use hyper::http::HeaderValue;

/// More than a server takes, with white space around it.
const FILE_BYTES_MAX: u64 = 16 << 10;

/// Where tokens come from.
#[derive(Clone)]
pub(crate) enum TokenSource {
    /// It was given.
    Text(GivenToken),
    /// It stands in a file, where a later one may stand when it is read again.
    File(PathBuf),
    /// It is made when it is needed.
    Made(std::sync::Arc<dyn Fn() -> String + Send + Sync>),
}

/// A token, or `@` and the file that it stands in, as its user gives it. Whatever stands in it,
/// making one succeeds: the message of a parse that fails would show it.
#[derive(Clone)]
pub(crate) struct GivenToken(String);

impl From<String> for GivenToken {
    fn from(text: String) -> GivenToken {
        GivenToken(text.trim().to_owned())
    }
}

impl fmt::Debug for GivenToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GivenToken(…)")
    }
}

impl fmt::Debug for TokenSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenSource(…)")
    }
}

impl GivenToken {
    /// Where its tokens come from; `None` when nothing was given.
    pub(crate) fn source(&self) -> Option<TokenSource> {
        match self.0.strip_prefix('@') {
            Some(path) => Some(TokenSource::File(path.into())),
            None if self.0.is_empty() => None,
            None => Some(TokenSource::Text(self.clone())),
        }
    }
}

impl TokenSource {
    /// The value of an `Authorization` field with the token of this moment.
    ///
    /// # Errors
    /// There is none, or nothing that can be one; the message does not show it.
    pub(crate) fn authorization(&self) -> Result<HeaderValue> {
        let token = match self {
            TokenSource::Text(GivenToken(text)) => text.clone(),
            TokenSource::File(path) => read(path).with_context(|| {
                format!(
                    "cannot read the token in {}; check its path, owner and mode",
                    path.display()
                )
            })?,
            TokenSource::Made(make) => make(),
        };
        let is_token = !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic());
        ensure!(is_token, "the token has characters that no token has: give it as it was made");
        let mut value = HeaderValue::try_from(format!("Bearer {token}"))?;
        value.set_sensitive(true);
        Ok(value)
    }
}

fn read(path: &Path) -> Result<String> {
    let mut text = String::new();
    File::open(path)?.take(FILE_BYTES_MAX).read_to_string(&mut text)?;
    Ok(text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(text: &str) -> GivenToken {
        GivenToken::from(text.to_owned())
    }

    #[test]
    fn token_is_shown_to_the_server_alone() {
        let source = given(" a.b.c\n").source().unwrap();
        let value = source.authorization().unwrap();
        assert_eq!(value.to_str().unwrap(), "Bearer a.b.c");
        assert!(!format!("{value:?} {source:?} {:?}", given("a.b.c")).contains("a.b"));
        for wrong in ["a.b c", "a.b\r\nX: y", "a.bä"] {
            let error = given(wrong).source().unwrap().authorization().unwrap_err();
            assert!(!format!("{error:#}").contains("a.b"), "{error:#}");
        }
        assert!(given("").source().is_none());
    }

    #[test]
    fn file_is_read_each_time() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        let source = given(&format!("@{}", path.display())).source().unwrap();
        let error = source.authorization().unwrap_err();
        assert!(format!("{error:#}").contains("cannot read the token in"), "{error:#}");
        for token in ["a.b.c", "d.e.f"] {
            std::fs::write(&path, format!("{token}\n")).unwrap();
            assert_eq!(source.authorization().unwrap(), format!("Bearer {token}"));
        }
    }
}
