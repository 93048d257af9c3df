//! What the kernel tells of its memory.

use super::*;

/// A directory of slabs such as the kernel shows.
fn slabs() -> tempfile::TempDir {
    let all = tempfile::tempdir().unwrap();
    for (name, order, slabs, objects, per_slab) in [
        ("TCP", 3, 12, 156, 13),
        ("sock_inode_cache", 2, 15, 285, 19),
        (":A-0000128", 0, 10, 320, 32),
        ("filp", 0, 30, 630, 21),
        ("dentry", 0, 10_976, 230_496, 21),
    ] {
        let directory = all.path().join(name);
        fs::create_dir_all(&directory).unwrap();
        for (file, text) in [
            ("order", order.to_string()),
            ("slabs", format!("{slabs} N0={slabs}")),
            ("total_objects", format!("{objects} N0={objects}")),
            ("objs_per_slab", per_slab.to_string()),
        ] {
            fs::write(directory.join(file), text + "\n").unwrap();
        }
    }
    for merged in ["eventpoll_epi", "tcp_bind2_bucket"] {
        std::os::unix::fs::symlink(":A-0000128", all.path().join(merged)).unwrap();
    }
    all
}

#[test]
fn slabs_count_by_page_and_shared_ones_by_socket() {
    let all = slabs();
    let own = (12 * 8 + 15 * 4 + 10) * 4096;
    assert_eq!(slabs_in(all.path(), 4096).unwrap(), own + 2 * 285 * (4096 / 21));
}

#[test]
fn kernel_without_the_slabs_of_sockets_has_no_figure() {
    let all = slabs();
    fs::write(all.path().join("TCP/slabs"), "many").unwrap();
    assert!(slabs_in(all.path(), 4096).is_err());
    fs::remove_dir_all(all.path().join("TCP")).unwrap();
    assert_eq!(slabs_in(all.path(), 4096).unwrap_err().kind(), io::ErrorKind::NotFound);
}

#[test]
fn sockstat_tells_pages_of_buffers() {
    let text = "sockets: used 15\nTCP: inuse 1 orphan 0 tw 0 alloc 1 mem 210\nUDP: mem 3\n";
    assert_eq!(parse_sockstat(text), Some(210));
    assert_eq!(parse_sockstat("TCP: inuse 1\n"), None);
    assert!(buffers().is_ok(), "every Linux has it");
}

#[test]
fn socket_memory_is_that_of_a_listener_at_least() {
    let _listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    // Not everybody may read it, and not every kernel shows it.
    if let Ok(memory) = socket_memory() {
        assert!(memory.slabs > 2_000 && memory.total() >= memory.slabs);
    }
}
