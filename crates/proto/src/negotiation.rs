//! What a client says about the documents that it has and reads (RFC 9110, sections 8.8.3, 12.5.3
//! and 13.1.2), for both ports.

/// The weak entity tag of a document whose version is `version`, visible ASCII without quotes and
/// commas. Weak: the compressed document and the plain one are the same to a reader.
pub fn entity_tag(version: &str) -> String {
    format!("W/\"{version}\"")
}

/// Whether the value of an `If-None-Match` has the tag of this version among its own, by the weak
/// comparison, or takes any.
pub fn has_version(known: &str, version: &str) -> bool {
    known.split(',').map(str::trim).any(|tag| {
        let opaque = tag.strip_prefix("W/").unwrap_or(tag);
        let named = opaque.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
        tag == "*" || named == Some(version)
    })
}

/// Whether the value of an `Accept-Encoding` has gzip among its codings with a weight that is not
/// 0. `*` does not count: who means gzip names it.
pub fn accepts_gzip(value: &[u8]) -> bool {
    let mut codings = value.split(|&byte| byte == b',');
    codings.any(|coding| {
        let mut parts = coding.split(|&byte| byte == b';').map(<[u8]>::trim_ascii);
        let is_gzip = parts.next().is_some_and(|name| name.eq_ignore_ascii_case(b"gzip"));
        let none = |weight: &[u8]| {
            let digits = weight.strip_prefix(b"q=").or(weight.strip_prefix(b"Q="));
            digits.is_some_and(|digits| digits.iter().all(|byte| b"0.".contains(byte)))
        };
        is_gzip && !parts.any(none)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_that_the_client_has_is_found_by_the_weak_comparison() {
        let tag = entity_tag("abc");
        assert_eq!(tag, "W/\"abc\"");
        for known in [&tag, "\"abc\"", "\"x\", W/\"abc\"", " * ", "W/\"x\",\"abc\""] {
            assert!(has_version(known, "abc"), "{known}");
        }
        for other in ["\"abcd\"", "", "abc", "\"", "W/", "w/\"abc\"", "\"a,abc,b\"", "\"*\""] {
            assert!(!has_version(other, "abc"), "{other}");
        }
    }

    #[test]
    fn gzip_is_for_those_who_name_it_and_do_not_refuse_it() {
        for (value, gzip) in [
            ("gzip", true),
            ("deflate, gzip;q=0.5, br", true),
            ("GZIP", true),
            ("gzip;q=0", false),
            ("gzip; Q=0.000", false),
            ("identity, *", false),
            ("xgzip", false),
            ("", false),
        ] {
            assert_eq!(accepts_gzip(value.as_bytes()), gzip, "{value}");
        }
    }
}
