//! The query of a request, and the signature in it.
//!
//! Signed is `METHOD\n/path\nk1=v1&k2=v2…`: all parameters but the signature, keys in small
//! letters and in their order, values decoded, those of a list joined by commas. Python's library
//! signs the MD5 of an empty body too, so a parameter is signed because it came, whatever it says.

use std::collections::BTreeMap;

use md5::{Digest, Md5};
use percent_encoding::percent_decode_str;

use super::refusal::ApiRefusal;
use crate::limits::{QUERY_PARAMETERS_MAX, TIMESTAMP_DRIFT_SECONDS_MAX};
use crate::signature::{Secret, hex};

/// The parameter that is not signed: it is the signature.
const SIGNATURE: &str = "auth_signature";

/// The parameters of a request, by their keys in small letters.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SignedQuery(BTreeMap<String, String>);

/// Who has to have signed, and when about.
#[derive(Clone, Copy, Debug)]
pub struct Signer<'a> {
    /// The app's key.
    pub key: &'a str,
    /// Its secret.
    pub secret: &'a Secret,
    /// The time, in seconds since 1970.
    pub now: u64,
}

impl SignedQuery {
    /// Reads what stands behind the `?`.
    ///
    /// # Errors
    /// It is no query of texts, or a longer one than any library makes.
    pub fn parse(query: &str) -> Result<SignedQuery, ApiRefusal> {
        let mut parameters = BTreeMap::<String, String>::new();
        let pairs = query.split('&').filter(|pair| !pair.is_empty());
        for (number, pair) in pairs.enumerate() {
            if number == QUERY_PARAMETERS_MAX {
                return Err(ApiRefusal::TooManyParameters);
            }
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let mut key = decoded(key)?.to_ascii_lowercase();
            // A list in the way of PHP and Ruby: `info[]=…`, `info[0]=…`.
            if key.ends_with(']')
                && let Some(bracket) = key.find('[')
            {
                key.truncate(bracket);
            }
            let value = decoded(value)?;
            match parameters.get_mut(&key) {
                Some(list) => {
                    list.push(',');
                    list.push_str(&value);
                }
                None => {
                    parameters.insert(key, value);
                }
            }
        }
        Ok(SignedQuery(parameters))
    }

    /// What the parameter `key` says.
    pub fn value(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }

    /// The key of the app that says it has signed.
    pub fn key(&self) -> Option<&str> {
        self.value("auth_key")
    }

    /// Looks whether the app has signed this request, now. `path` is as it came, without the query.
    /// Its body needs not have come yet: [`SignedQuery::verify_body`].
    ///
    /// # Errors
    /// It has not; the refusal says what is wrong, and the secret stays unknown.
    pub fn verify_head(
        &self,
        signer: Signer<'_>,
        method: &str,
        path: &str,
    ) -> Result<(), ApiRefusal> {
        let needed = |key| self.value(key).ok_or(ApiRefusal::Unsigned(key));
        if needed("auth_key")? != signer.key {
            return Err(ApiRefusal::Key);
        }
        if needed("auth_version")? != "1.0" {
            return Err(ApiRefusal::Version);
        }
        let now = signer.now;
        let is_now = |time: u64| time.abs_diff(now) <= TIMESTAMP_DRIFT_SECONDS_MAX;
        if !needed("auth_timestamp")?.parse().is_ok_and(is_now) {
            return Err(ApiRefusal::Timestamp { now });
        }
        let signature = needed(SIGNATURE)?;
        let parameters = self.signed();
        let has_signed = |path: &str| {
            let text = [method, "\n", path, "\n", &parameters].map(str::as_bytes);
            signer.secret.has_signed(&text, signature)
        };
        // Libraries sign the path before their HTTP client escapes it.
        let plain = percent_decode_str(path).decode_utf8();
        let is_signed =
            has_signed(path) || plain.is_ok_and(|plain| plain != path && has_signed(&plain));
        is_signed.then_some(()).ok_or(ApiRefusal::Signature)
    }

    /// Looks whether `body` is the one that was signed.
    ///
    /// # Errors
    /// It is another one, or there is one that was not signed.
    pub fn verify_body(&self, body: &[u8]) -> Result<(), ApiRefusal> {
        match self.value("body_md5") {
            None if body.is_empty() => Ok(()),
            None => Err(ApiRefusal::Unsigned("body_md5")),
            // It is signed itself, so its comparison tells nobody a secret.
            Some(md5) if md5.eq_ignore_ascii_case(&hex(&Md5::digest(body))) => Ok(()),
            Some(_) => Err(ApiRefusal::BodyMd5),
        }
    }

    fn signed(&self) -> String {
        let signed = self.0.iter().filter(|(key, _)| *key != SIGNATURE);
        let pairs: Vec<String> = signed.map(|(key, value)| format!("{key}={value}")).collect();
        pairs.join("&")
    }
}

fn decoded(part: &str) -> Result<String, ApiRefusal> {
    let text = percent_decode_str(part).decode_utf8();
    let text = text.map_err(|_| ApiRefusal::Query("it is not UTF-8"))?;
    Ok(text.into_owned())
}

#[cfg(test)]
mod tests;
