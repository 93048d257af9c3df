//! The page that the daemon carries: its files, embedded, and the policy that it is served under.
//!
//! There is no template and no build step. What stands in `web/` is what the browser gets. Before
//! it come the styles that Encke's own pages share, from the place where these have them. What the
//! page shows it asks of the daemon, by the calls that everybody has, and what it takes of them
//! beside the fields that old clients know is
//!
//! - of `stat`: `streams`, the base address of the streams (`http://127.0.0.1:8000`), `resolvers`,
//!   a list of `{"name","weight","targettime","localonly"}`, and in the demo `examples`, a list of
//!   `{"artist","track"}` that are there to be found;
//! - of a query's stream: events whose `data` is a result, or has a list of `results`;
//! - of `/authcodes?json`: `{"authcodes":[{"id","website","name","granted"}]}`, with the time in
//!   seconds since 1970. `POST /authcodes` with the form field `revoke`, one of those ids, takes
//!   one back: a `GET` that did would be in reach of any image on any page.
//!
//! Cost: none until somebody asks; a file is bytes of the program.

/// The file that stands at `path`, and its media type; `None` is for somebody else to answer.
pub fn file(path: &str) -> Option<(&'static str, &'static [u8])> {
    const HTML: &str = "text/html; charset=utf-8";
    const CSS: &str = "text/css; charset=utf-8";
    const SCRIPT: &str = "text/javascript; charset=utf-8";
    let (kind, bytes): (_, &'static [u8]) = match path {
        "/" => (HTML, include_bytes!("../web/index.html")),
        "/static/base.css" => (CSS, include_bytes!("../../../web/src/shared/base.css")),
        "/static/sky.css" => (CSS, include_bytes!("../../../web/src/demo/sky.css")),
        "/static/page.css" => (CSS, include_bytes!("../web/page.css")),
        "/static/panels.css" => (CSS, include_bytes!("../web/panels.css")),
        "/static/page.js" => (SCRIPT, include_bytes!("../web/page.js")),
        "/static/results.js" => (SCRIPT, include_bytes!("../web/results.js")),
        "/static/arrivals.js" => (SCRIPT, include_bytes!("../web/arrivals.js")),
        "/static/comet.js" => (SCRIPT, include_bytes!("../web/comet.js")),
        "/static/dom.js" => (SCRIPT, include_bytes!("../web/dom.js")),
        "/static/icon.svg" => ("image/svg+xml", include_bytes!("../web/icon.svg")),
        _ => return None,
    };
    Some((kind, bytes))
}

/// What the page may load, run and connect to (CSP Level 3): this daemon, and its streams at
/// `streams`, an origin as `http://127.0.0.1:8000`. No style or script stands in its markup, and a
/// name that holds one is text, so nothing of either is let in.
pub fn policy(streams: &str) -> String {
    format!(
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
         media-src 'self'; connect-src 'self' {streams}; base-uri 'none'; form-action 'none'; \
         frame-ancestors 'none'"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a page of the kind may weigh in all.
    const PAGE_BYTES_MAX: usize = 60_000;

    /// The files that a text names between double quotes, by `static/` or `./`.
    fn named_in(text: &str) -> impl Iterator<Item = &str> {
        let quoted = text.split('"').skip(1).step_by(2);
        quoted.filter_map(|word| word.strip_prefix("static/").or_else(|| word.strip_prefix("./")))
    }

    #[test]
    fn every_file_that_the_page_names_is_there_and_all_are_small() {
        let mut paths = vec!["/".to_owned()];
        let (mut bytes, mut at) = (0, 0);
        while let Some(path) = paths.get(at).cloned() {
            let (_, body) = file(&path).unwrap_or_else(|| panic!("nothing stands at {path}"));
            bytes += body.len();
            let text = std::str::from_utf8(body).expect("the page's files are UTF-8");
            for path in named_in(text).map(|name| format!("/static/{name}")) {
                if !paths.contains(&path) {
                    paths.push(path);
                }
            }
            at += 1;
        }
        assert_eq!(paths.len(), 11, "{paths:?}");
        assert!(bytes < PAGE_BYTES_MAX, "{bytes} bytes");
        assert_eq!(file("/static/../Cargo.toml"), None);
    }

    #[test]
    fn policy_lets_in_the_streams_and_nothing_inline() {
        let policy = policy("http://127.0.0.1:8000");
        assert!(policy.contains("connect-src 'self' http://127.0.0.1:8000;"), "{policy}");
        assert!(!policy.contains("unsafe"), "{policy}");
    }
}
