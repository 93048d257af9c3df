//! Lists of servers, good and broken.

use super::*;

fn read(list: &str) -> Vec<(String, u64)> {
    let servers = parse(list.as_bytes()).unwrap();
    servers.iter().map(|server| (server.address().to_owned(), server.memory())).collect()
}

fn refused(list: &str) -> String {
    parse(list.as_bytes()).unwrap_err().to_string()
}

#[test]
fn lines_are_servers_comments_or_nothing() {
    let list = "#------ Server -------\t-Mem-#\n#255.255.255.255:65535\t66666#\n\
                10.0.1.1:11211\t600\n\n  10.0.1.2:11211 \t 300 \t\r\n \t\n\
                10.0.1.1:11211 600\n##\n10.0.1.3:11211 +20";
    let expected = [
        ("10.0.1.1:11211", 600),
        ("10.0.1.2:11211", 300),
        ("10.0.1.1:11211", 600),
        ("10.0.1.3:11211", 20),
    ];
    assert_eq!(read(list), expected.map(|(address, memory)| (address.to_owned(), memory)));
    assert_eq!(read(""), []);
    assert_eq!(read("# nobody\n"), []);
}

#[test]
fn comment_may_hold_any_bytes_and_a_server_may_not() {
    assert_eq!(parse(b"# \xff\n"), Ok(Vec::new()));
    let error = parse(b"\na:1 1\n\xff:1 1\n").unwrap_err();
    assert_eq!((error.line, error.fault), (3, Fault::NotText));
}

#[test]
fn faults_name_the_line_the_word_and_the_way_out() {
    for (list, expected) in [
        ("a:1 1\nb:1\n", "line 2: no memory after \"b:1\": a line is an address, "),
        ("\n\na:1 600MB\n", "line 3: \"600MB\" is no memory: write a whole number "),
        ("a:1 -600\n", "line 1: \"-600\" is no memory"),
        ("a:1 6e2\n", "line 1: \"6e2\" is no memory"),
        ("a:1 18446744073709551616\n", "line 1: \"18446744073709551616\" is no memory"),
        ("a:1 0\n", "line 1: a server's memory must not be 0"),
        ("a:1 600 # old\n", "line 1: \"#\" after the memory: one server a line; "),
        (" # note\n", "line 1: \"note\" is no memory"),
        (" #a 1\n", "line 1: an address must not begin with `#`"),
        ("\u{feff}a:1 1\n", "line 1: an address must not contain '\\u{feff}'"),
        ("a:1\u{b}1\n", "line 1: no memory after \"a:1\\u{b}1\""),
    ] {
        let told = refused(list);
        assert!(told.starts_with(expected), "{list:?}: {told}");
    }
}

#[test]
fn fault_quotes_the_beginning_of_an_endless_word() {
    assert!(refused(&format!("a:1 {}", "9".repeat(1 << 20))).len() < 200);
}
