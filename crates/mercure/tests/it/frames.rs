//! Updates as subscribers hear them.

use mercure::{UpdateFrame, push_update};

fn frame(kind: Option<&str>, retry: Option<u64>, data: &str) -> String {
    let mut out = Vec::new();
    push_update(&mut out, &UpdateFrame { kind, retry, id: "urn:x:1", data });
    String::from_utf8(out).unwrap()
}

#[test]
fn update_has_its_fields_in_the_references_order() {
    assert_eq!(
        frame(Some("note"), Some(3000), "a\r\nb"),
        "event: note\nretry: 3000\nid: urn:x:1\ndata: a\ndata: b\n\n"
    );
    assert_eq!(frame(None, None, ""), "id: urn:x:1\ndata: \n\n");
}

#[test]
fn data_is_split_at_each_kind_of_line_end() {
    for (data, lines) in [
        ("a", &["a"][..]),
        ("a\nb", &["a", "b"]),
        ("a\rb", &["a", "b"]),
        ("a\r\nb", &["a", "b"]),
        ("a\n\nb", &["a", "", "b"]),
        ("a\n\rb", &["a", "", "b"]),
        ("a\r\r\nb", &["a", "", "b"]),
        ("a\n", &["a", ""]),
        ("\n", &["", ""]),
        (" a: b", &[" a: b"]),
        ("é\u{2028}ü\u{85}", &["é\u{2028}ü\u{85}"]),
        ("id: x\n\ndata: y", &["id: x", "", "data: y"]),
    ] {
        let lines: String = lines.iter().map(|line| format!("data: {line}\n")).collect();
        assert_eq!(frame(None, None, data), format!("id: urn:x:1\n{lines}\n"), "{data:?}");
    }
}
