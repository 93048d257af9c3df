//! The demo page: what `encke demo` shows at `/` of the public port.
//!
//! It is one document, built by `web/build.mjs` and committed, so that the server needs no other
//! files. At the start it is told what it cannot know, where the API is and how large the demo,
//! and is compressed once.

use std::fmt;
use std::str::FromStr;

use proto::Page;
use serde::{Deserialize, Serialize};

use crate::web::{compress, version};

const DOCUMENT: &str = include_str!("../../../web/dist/demo.html");

/// Its content security policy, with places for the host and the API's port.
const POLICY: &str = include_str!("../../../web/dist/demo.csp");

/// Where the document has its facts.
const FACTS: &str = "<script type=\"application/json\" id=\"facts\">{}</script>";

/// What the page is told about the demo.
#[derive(Clone, PartialEq, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct DemoFacts {
    /// The users are numbered from 0.
    pub users: u32,
    /// Events about all of them together.
    pub events_per_second: f64,
    /// By which a visitor is any of the users, where streams ask for tokens.
    pub token: Option<PageToken>,
}

/// A token for whoever looks at the page.
#[derive(Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct PageToken(pub String);

impl fmt::Debug for PageToken {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("PageToken(…)")
    }
}

impl FromStr for DemoFacts {
    type Err = String;

    fn from_str(text: &str) -> Result<DemoFacts, String> {
        serde_json::from_str(text).map_err(|error| error.to_string())
    }
}

/// The page of a demo whose API is at `api_port`.
pub(super) fn page(facts: &DemoFacts, api_port: u16) -> Page {
    #[derive(Serialize)]
    struct PageFacts<'f> {
        api_port: u16,
        #[serde(flatten)]
        facts: &'f DemoFacts,
    }
    let told = serde_json::to_string(&PageFacts { api_port, facts }).expect("all members are JSON");
    // Nothing in it ends the element that it stands in.
    let told = told.replace('<', r"\u003c");
    let html = DOCUMENT.replace(FACTS, &FACTS.replace("{}", &told)).into_bytes();
    let gzip = compress(&html);
    let tag = version(&gzip);
    let policy = POLICY.trim_end().replace("{api_port}", &api_port.to_string());
    Page { html, gzip, tag, policy }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use flate2::read::GzDecoder;

    use super::*;

    const DEMO: DemoFacts = DemoFacts { users: 10_000, events_per_second: 0.5, token: None };

    #[test]
    fn page_is_told_the_facts_and_is_the_same_compressed() {
        let page = page(&DEMO, 8001);
        let html = String::from_utf8(page.html).unwrap();
        let facts =
            r#">{"api_port":8001,"users":10000,"events_per_second":0.5,"token":null}</script>"#;
        assert!(html.contains(facts));
        let mut plain = String::new();
        GzDecoder::new(&page.gzip[..]).read_to_string(&mut plain).unwrap();
        assert_eq!(plain, html);
        assert!(page.gzip.len() < 100_000, "{} bytes", page.gzip.len());
    }

    #[test]
    fn tag_changes_with_the_document() {
        assert_eq!(page(&DEMO, 1).tag, page(&DEMO, 1).tag);
        assert_ne!(page(&DEMO, 1).tag, page(&DEMO, 2).tag);
    }

    #[test]
    fn policy_has_its_place_for_the_host_and_lets_nothing_else_in() {
        let policy = page(&DEMO, 8001).policy;
        assert!(
            policy.contains("connect-src 'self' ws://{host}:* http://{host}:8001;"),
            "{policy}"
        );
        assert!(policy.starts_with("default-src 'none';"), "{policy}");
        assert!(!policy.contains("unsafe"), "{policy}");
    }

    #[test]
    fn token_is_for_the_page_alone() {
        let facts = DemoFacts { token: Some(PageToken("a.b.c</script>".into())), ..DEMO };
        assert!(!format!("{facts:?}").contains("a.b.c"));
        let html = String::from_utf8(page(&facts, 1).html).unwrap();
        assert!(html.contains(r#""token":"a.b.c\u003c/script>"}</script>"#));
    }

    #[test]
    fn facts_are_read_as_they_are_passed_on() {
        let text = serde_json::to_string(&DEMO).unwrap();
        assert_eq!(text.parse(), Ok(DEMO));
        assert!("{}".parse::<DemoFacts>().is_err());
        assert!("{\"users\":\"<script>\"}".parse::<DemoFacts>().is_err());
    }
}
