//! Offers of extensions.

use super::*;

#[test]
fn offers_that_we_can_keep_to_are_taken() {
    for list in [
        "permessage-deflate",
        "Permessage-Deflate",
        "permessage-deflate; client_max_window_bits",
        "permessage-deflate;client_max_window_bits=15 ; server_no_context_takeover",
        "permessage-deflate; client_max_window_bits=\"10\"",
        "permessage-deflate; server_no_context_takeover; client_no_context_takeover",
        "x-webkit-deflate-frame, permessage-deflate",
        "permessage-deflate; server_max_window_bits=10, permessage-deflate",
        "foo; bar=\"baz\";x, permessage-deflate",
    ] {
        assert_eq!(ask_for_deflate(list), Ok(true), "{list}");
    }
}

#[test]
fn other_offers_are_left_out() {
    for list in [
        "x-webkit-deflate-frame",
        "permessage-bzip2; a=1",
        "permessage-deflate; server_max_window_bits=10",
        "permessage-deflate; server_max_window_bits",
        "permessage-deflate; client_max_window_bits=7",
        "permessage-deflate; client_max_window_bits=016",
        "permessage-deflate; client_no_context_takeover=1",
        "permessage-deflate; client_max_window_bits; client_max_window_bits",
        "permessage-deflate; unknown",
    ] {
        assert_eq!(ask_for_deflate(list), Ok(false), "{list}");
    }
}

#[test]
fn lists_that_break_the_grammar_are_refused() {
    for list in [
        "",
        ",",
        "a,",
        "a;",
        "a;;b",
        "a b",
        "a; b=",
        "a; b=\"",
        "a; b=\"c",
        "a; =c",
        "é",
        "a; b=\"\"",
        "permessage-deflate; x=\"a b\"",
    ] {
        assert_eq!(ask_for_deflate(list).unwrap_err().status, 400, "{list}");
    }
}
