//! What is said of traces at the start: where they go, and which sends have one.

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;

use hyper::Uri;
use hyper::header::{HeaderName, HeaderValue};
use opentelemetry_sdk::trace::Sampler;
use percent_encoding::percent_decode_str;

/// Where traces of sends go, and which sends have one.
#[derive(Clone, Debug)]
pub struct TracesConfig {
    /// The collector.
    pub collector: CollectorUrl,
    /// What it is shown besides.
    pub headers: TraceHeaders,
    /// What this server is called there; `encke` unless the environment has a name.
    pub service: Option<String>,
    /// Which sends have a trace.
    pub sampling: Sampling,
}

/// The path of traces behind a collector's address (OTLP specification, "OTLP/HTTP Request").
const PATH: &str = "/v1/traces";

/// Where an OpenTelemetry collector takes traces by OTLP over HTTP.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CollectorUrl(Uri);

impl CollectorUrl {
    /// The whole address, with the path of traces.
    pub(super) fn uri(&self) -> &Uri {
        &self.0
    }

    /// Without what stands behind the port, as the log has it.
    pub(super) fn host(&self) -> &str {
        self.0.authority().map_or("", |authority| authority.as_str())
    }
}

impl FromStr for CollectorUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<CollectorUrl, String> {
        let wanted =
            || "write http://HOST:PORT or https://HOST:PORT, such as http://localhost:4318";
        let url: Uri = text.parse().map_err(|_| wanted())?;
        let (Some("http" | "https"), Some(authority)) = (url.scheme_str(), url.authority()) else {
            return Err(wanted().to_owned());
        };
        if authority.as_str().contains('@') {
            return Err("a collector's URL has no password: say it by --otlp-headers".to_owned());
        }
        if url.query().is_some() {
            return Err("a collector's URL has no query".to_owned());
        }
        let path = url.path().trim_end_matches('/');
        if path.ends_with(PATH) {
            return Ok(CollectorUrl(url));
        }
        let scheme = url.scheme_str().unwrap_or_default();
        let whole = format!("{scheme}://{authority}{path}{PATH}");
        Ok(CollectorUrl(whole.parse().map_err(|_| wanted())?))
    }
}

/// What a collector is shown with each request, such as a key: none of it is shown to anybody else.
#[derive(Clone, Default)]
pub struct TraceHeaders(pub(super) HashMap<String, String>);

impl FromStr for TraceHeaders {
    type Err = String;

    /// `name=value`, with commas between them; a value may have %XX (W3C Baggage).
    fn from_str(text: &str) -> Result<TraceHeaders, String> {
        let mut headers = HashMap::new();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let Some((name, value)) = part.split_once('=') else {
                return Err("write NAME=VALUE, with commas between several".to_owned());
            };
            let name = name.trim();
            let value = percent_decode_str(value.trim()).decode_utf8();
            let value = value.map_err(|_| "a value is no UTF-8")?;
            let name: HeaderName = name.parse().map_err(|_| "a name is none of a header")?;
            HeaderValue::from_str(&value).map_err(|_| "a value has control characters")?;
            headers.insert(name.as_str().to_owned(), value.into_owned());
        }
        Ok(TraceHeaders(headers))
    }
}

impl fmt::Debug for TraceHeaders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({} headers)", self.0.len())
    }
}

/// Which sends have a trace.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Sampling {
    /// Whether a caller that says so decides.
    pub parent_based: bool,
    /// Of the others so many: from 0, none, to 1, all.
    pub ratio: f64,
}

impl Sampling {
    pub(super) fn sampler(self) -> Sampler {
        let root = match self.ratio {
            ratio if ratio >= 1.0 => Sampler::AlwaysOn,
            ratio if ratio <= 0.0 => Sampler::AlwaysOff,
            ratio => Sampler::TraceIdRatioBased(ratio),
        };
        if self.parent_based { Sampler::ParentBased(Box::new(root)) } else { root }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn collector_is_an_address_to_which_the_path_of_traces_is_added() {
        for (text, whole) in [
            ("http://localhost:4318", "http://localhost:4318/v1/traces"),
            ("http://[::1]:4318/", "http://[::1]:4318/v1/traces"),
            ("https://otel.example/tenant/7", "https://otel.example/tenant/7/v1/traces"),
            ("http://10.0.0.1:4318/v1/traces", "http://10.0.0.1:4318/v1/traces"),
        ] {
            assert_eq!(text.parse::<CollectorUrl>().unwrap().uri(), whole, "{text}");
        }
        for text in
            ["", "localhost:4318", "/v1/traces", "grpc://a:4317", "http://", "http://a/?b", "none"]
        {
            assert!(text.parse::<CollectorUrl>().is_err(), "{text}");
        }
        let told = "http://me:secret@a:4318".parse::<CollectorUrl>().unwrap_err();
        assert!(told.contains("--otlp-headers") && !told.contains("secret"), "{told}");
    }

    #[test]
    fn headers_are_read_as_the_standard_has_them_and_never_shown() {
        let headers: TraceHeaders = "api-key=s3cret, X-Tenant = a%20b%2Cc ,".parse().unwrap();
        assert_eq!(headers.0["api-key"], "s3cret");
        assert_eq!(headers.0["x-tenant"], "a b,c");
        assert_eq!(format!("{headers:?}"), "(2 headers)");
        assert!("".parse::<TraceHeaders>().unwrap().0.is_empty());
        for text in ["api-key", "a b=c", "a=%0a", "=x", "a=%ff"] {
            let told = text.parse::<TraceHeaders>().unwrap_err();
            assert!(!told.contains(text), "{told}");
        }
    }

    #[test]
    fn all_and_none_need_no_arithmetic() {
        let debug =
            |parent_based, ratio| format!("{:?}", Sampling { parent_based, ratio }.sampler());
        assert_eq!(debug(true, 1.0), "ParentBased(AlwaysOn)");
        assert_eq!(debug(false, 0.0), "AlwaysOff");
        assert_eq!(debug(false, 0.25), "TraceIdRatioBased(0.25)");
    }
}
