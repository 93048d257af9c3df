//! What a verified token grants at the hub.

use hub::Claims as Verified;
use mercure::{Claims, ClaimsFault, Dialect, HubUrl, Refusal};
use serde_json::Value;

/// The hub as its tokens name it.
#[derive(Clone, Copy, Debug)]
pub struct HubNames<'h> {
    /// Its address: patterns of 1.0 are seen from there, and tokens of 1.0 are for it.
    pub url: &'h HubUrl,
    /// Whether the operator has named it. Otherwise it is as the client has called it, and nobody
    /// knows whether a proxy before it speaks TLS: then tokens may name either scheme.
    pub is_named: bool,
    /// By whom tokens of 1.0 are issued; anybody where none is named.
    pub issuers: &'h [Box<str>],
}

/// Reads what a token says, whose signature and times are good.
///
/// # Errors
/// The whole token is refused.
pub fn read_claims(verified: Option<&Verified>, names: HubNames<'_>) -> Result<Claims, Refusal> {
    let verified = verified.ok_or(ClaimsFault::NoObject)?;
    let dialect = Dialect::of_token(verified.kind.as_deref());
    let claims = serde_json::from_str(&verified.json).map_err(|_| ClaimsFault::NoObject)?;
    if dialect == Dialect::V1 {
        names.check(&claims)?;
    }
    Ok(Claims::parse(dialect, &claims, names.url)?)
}

impl HubNames<'_> {
    /// Looks at what an access token must have (RFC 9068, sections 2.2 and 4). What its times are
    /// was looked at with its signature.
    fn check(&self, claims: &Value) -> Result<(), Refusal> {
        let bad = |why: &'static str| Err(Refusal::BadToken(why.into()));
        match claims["iss"].as_str() {
            None => return bad("it does not say by whom it is issued (iss)"),
            Some(issuer) if self.issuers.is_empty() || self.knows(issuer) => {}
            Some(_) => return bad("this hub does not know its issuer (iss)"),
        }
        let is_for_us = match &claims["aud"] {
            Value::String(audience) => self.is_ours(audience),
            Value::Array(all) => all.iter().filter_map(Value::as_str).any(|of| self.is_ours(of)),
            _ => false,
        };
        if !is_for_us {
            return bad("its audience (aud) is not the address of this hub");
        }
        if claims["exp"].is_null() {
            return bad("it does not say when it expires (exp)");
        }
        Ok(())
    }

    fn knows(&self, issuer: &str) -> bool {
        self.issuers.iter().any(|known| **known == *issuer)
    }

    fn is_ours(&self, audience: &str) -> bool {
        let without_scheme = |url| -> Option<&str> {
            Some(str::split_once(url, "://")?)
                .filter(|(scheme, _)| matches!(*scheme, "http" | "https"))
                .map(|(_, rest)| rest)
        };
        let ours = self.url.as_str();
        audience == ours || !self.is_named && without_scheme(audience) == without_scheme(ours)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn token_of_1_0_is_of_a_known_issuer_for_this_hub_and_ends() {
        let url = HubUrl::parse("https://hub.example/.well-known/mercure").unwrap();
        let ours = url.as_str().to_owned();
        let issuers: [Box<str>; 2] = ["https://app.example".into(), "other".into()];
        let good = json!({ "iss": "https://app.example", "aud": ours, "exp": 4_102_444_800_u64 });
        let with = |name: &str, value: Value| {
            let mut claims = good.clone();
            claims[name] = value;
            claims
        };
        let read = |claims: &Value, is_named: bool, issuers: &[Box<str>]| {
            let verified =
                Verified { kind: Some("AT+JWT".into()), json: claims.to_string().into() };
            read_claims(Some(&verified), HubNames { url: &url, is_named, issuers })
        };
        for claims in [
            &good,
            &with("iss", json!("other")),
            &with("aud", json!(["https://other.example", ours])),
            &with("authorization_details", json!([])),
        ] {
            let claims = read(claims, true, &issuers).unwrap();
            assert_eq!(claims.dialect(), Dialect::V1);
        }
        for (name, value) in [
            ("iss", Value::Null),
            ("iss", json!("https://app.example/")),
            ("iss", json!(["other"])),
            ("aud", Value::Null),
            ("aud", json!([])),
            ("aud", json!("http://hub.example/.well-known/mercure")),
            ("aud", json!("https://hub.example/.well-known/mercure/")),
            ("aud", json!("https://hub.example")),
            ("exp", Value::Null),
            ("authorization_details", json!({})),
        ] {
            let refused = read(&with(name, value.clone()), true, &issuers).unwrap_err();
            assert_eq!(refused.error_code(Dialect::V1), Some("invalid_token"), "{name} {value}");
        }
        let anybodys = with("iss", json!("anybody"));
        assert!(read(&anybodys, true, &[]).is_ok() && read(&anybodys, true, &issuers).is_err());
        let plain = with("aud", json!("http://hub.example/.well-known/mercure"));
        assert!(read(&plain, false, &issuers).is_ok(), "a proxy may speak TLS or not");
        let other = with("aud", json!("http://other.example/.well-known/mercure"));
        assert!(read(&other, false, &issuers).is_err());
    }
}
