//! Tokens: what a client shows to be let in under an id, and whether it is good.
//!
//! A token is a JSON Web Token (RFC 7519) in compact form. It is signed (RFC 7515) with a key that
//! the server knows (RFC 7517, RFC 7518, RFC 8037). It is read as RFC 8725 advises: the key's type,
//! not the token, says which algorithms it is for. Keys that a token brings along are not looked
//! at, and an unsigned token is refused. What it comes to is a [`hub::Grant`], or a
//! [`hub::TokenRefusal`].
//!
//! Signatures are the library's: `jsonwebtoken` on AWS-LC. What it leaves to its user is here:
//! which key, what of the header must be understood, what the claims mean, and the time, which a
//! test may choose. How a token comes, and what a refusal looks like there, is not known here.
//!
//! - [`rules`]: what a server is told at its start; [`key_file`], [`jwk`], [`key`]: its keys.
//! - [mod@reload], [`known_keys`]: key files that change while the server runs; [`jwks`],
//!   [`jwks_refresher`]: a set of keys at a URL.
//! - [`jws`], [`claims`]: the token's form and what it says.
//! - [`verifier`]: all that put together; [`verified`]: what it remembers.
//! - [`revoked`]: tokens that are good no more.
//! - [`sign`]: making tokens, for tools.
//!
//! No token and no key stands in a log, an error or a `Debug`. Keys are wiped when they are
//! dropped.

mod claims;
mod jwk;
mod jwks;
mod jwks_refresher;
mod jws;
mod key;
mod key_file;
mod key_set;
mod known_keys;
mod known_secrets;
mod limits;
mod reload;
mod revoked;
mod rules;
mod sign;
#[cfg(test)]
mod testing;
mod verified;
mod verifier;

pub use claims::ReadBy;
pub use jwk::JwkError;
pub use jwks::{JwksSource, LookError};
pub use jwks_refresher::JwksRefresher;
pub use key_file::{KeyFileFault, TokenKeyFileError};
pub use known_keys::Reloaded;
pub use limits::{LEEWAY_MAX, REVOCATION_LIFETIME};
pub use reload::{reload, watch};
pub use revoked::Line as RevocationLine;
pub use revoked::{Revocation, Revocations, RevokedError};
pub use rules::{TokenRules, TokenRulesError};
pub use sign::{NewGrant, NewToken, SigningKey, SigningKeyError};
pub use verifier::{Checked, KnownToken, Verifier, VerifierFigures};
