//! Connections that the server opens by itself, by HTTP or HTTPS. Whom the system trusts is
//! trusted.

use std::io;
use std::sync::Arc;

use hyper::Uri;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use rustls::crypto::aws_lc_rs;

/// Opens connections to `url`, with HTTP/1.1. Fails where https is wanted and the system trusts no
/// certificates.
pub fn connector(url: &Uri) -> io::Result<HttpsConnector<HttpConnector>> {
    let (builder, provider) = (HttpsConnectorBuilder::new(), aws_lc_rs::default_provider());
    if url.scheme_str() != Some("http") {
        let trusting = builder.with_provider_and_native_roots(provider)?;
        return Ok(trusting.https_only().enable_http1().build());
    }
    // Roots are read from disk, and http needs none.
    let config = rustls::ClientConfig::builder_with_provider(Arc::new(provider))
        .with_safe_default_protocol_versions()
        .expect("the provider has the suites of its own versions")
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    Ok(builder.with_tls_config(config).https_or_http().enable_http1().build())
}

/// The causes of an error in one line: the first says nothing.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut words = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        words += &format!(": {error}");
        cause = error.source();
    }
    words
}
