//! Pages without script: everything in them that is not ours is escaped.

use std::fmt::Write as _;

use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE, X_FRAME_OPTIONS};
use axum::response::{IntoResponse, Response};
use html_escape::encode_quoted_attribute;

/// No script, nothing loaded but our styles, in no frame of anybody. Forms are not bound to our
/// origin here, since browsers hold the page that a form's answer leads to for its target too.
const POLICY: &str = "default-src 'none'; style-src 'self'; base-uri 'none'; \
                      frame-ancestors 'none'";

/// Text that may stand anywhere in HTML, quoted attributes too.
pub(super) fn escaped(text: &str) -> String {
    encode_quoted_attribute(text).into_owned()
}

/// A page; `title` is text, `body` is HTML.
pub(super) fn page(title: &str, body: &str) -> Response {
    let title = escaped(title);
    let page = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\"><title>{title} · Playdar</title>\
         <link rel=\"stylesheet\" href=\"/static/base.css\">\
         <link rel=\"stylesheet\" href=\"/static/page.css\"></head>\
         <body><main><h1>{title}</h1>{body}</main></body></html>\n"
    );
    let headers = [
        (CONTENT_TYPE, "text/html; charset=utf-8"),
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_FRAME_OPTIONS, "DENY"),
    ];
    (headers, page).into_response()
}

/// A table of text.
pub(super) fn table(head: &[&str], rows: impl Iterator<Item = Vec<Cell>>) -> String {
    let mut html = String::from("<table><thead><tr>");
    // Writing to a string does not fail.
    for name in head {
        let _ = write!(html, "<th scope=\"col\">{}</th>", escaped(name));
    }
    html.push_str("</tr></thead><tbody>");
    for row in rows {
        html.push_str("<tr>");
        for cell in row {
            let _ = match cell {
                Cell::Text(text) => write!(html, "<td>{}</td>", escaped(&text)),
                Cell::Link(to, text) => {
                    let (to, text) = (escaped(&to), escaped(&text));
                    write!(html, "<td><a href=\"{to}\">{text}</a></td>")
                }
                Cell::Html(inner) => write!(html, "<td>{inner}</td>"),
            };
        }
        html.push_str("</tr>");
    }
    html.push_str("</tbody></table>");
    html
}

/// A cell of a table.
pub(super) enum Cell {
    /// Plain text.
    Text(String),
    /// Where it leads, and its text.
    Link(String, String),
    /// HTML of ours, whose text is escaped already.
    Html(String),
}

/// A form with one button that posts `fields` to `action`.
pub(super) fn form(action: &str, fields: &[(&str, &str)], button: &str) -> String {
    let mut html = format!("<form method=\"post\" action=\"{}\">", escaped(action));
    for (name, value) in fields {
        let (name, value) = (escaped(name), escaped(value));
        let _ = write!(html, "<input type=\"hidden\" name=\"{name}\" value=\"{value}\">");
    }
    let _ = write!(html, "<button>{}</button></form>", escaped(button));
    html
}
