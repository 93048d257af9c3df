//! Lists of servers, and the continuum that is made of one.

use ketama::{Continuum, Server, hash, parse};

/// Digests that a continuum under test may take, so that one run stays short.
const SERVERS_MAX: usize = 16;

/// Any bytes as a list: refused with the line that is at fault, or servers that a naive reader
/// finds too, that read the same when they are written out, and whose continuum answers as a walk
/// over its points does.
pub fn server_list(data: &[u8]) {
    let servers = match parse(data) {
        Ok(servers) => servers,
        Err(error) => {
            let lines = data.split(|&byte| byte == b'\n').collect::<Vec<_>>();
            assert!((1..=lines.len()).contains(&error.line));
            assert!(!lines[error.line - 1].starts_with(b"#"), "comments are never at fault");
            assert!(error.to_string().len() < 500);
            // All before it is good.
            assert!(parse(&lines[..error.line - 1].join(&b'\n')).is_ok());
            return;
        }
    };
    assert_eq!(naive(data), servers);
    let line = |server: &Server| format!("{}\t{}\n", server.address(), server.memory());
    let written: String = servers.iter().map(line).collect();
    assert_eq!(parse(written.as_bytes()).as_ref(), Ok(&servers));
    check_continuum(&servers[..servers.len().min(SERVERS_MAX)], data);
}

/// Words of lines that are no comments, two by two.
fn naive(data: &[u8]) -> Vec<Server> {
    let lines = data.split(|&byte| byte == b'\n').filter(|line| line.first() != Some(&b'#'));
    let lines = lines.map(|line| String::from_utf8(line.to_vec()).unwrap());
    lines
        .filter_map(|line| {
            let mut words = line.split_ascii_whitespace();
            let address = words.next()?.to_owned();
            Some(Server::new(&address, words.next().unwrap().parse().unwrap()).unwrap())
        })
        .collect()
}

fn check_continuum(servers: &[Server], key: &[u8]) {
    let Ok(continuum) = Continuum::new(servers) else {
        let total: u128 = servers.iter().map(|server| u128::from(server.memory())).sum();
        assert!(servers.is_empty() || total > u128::from(u64::MAX));
        return;
    };
    assert!(continuum.points().is_sorted_by_key(|point| point.hash));
    // Single precision may add or take a digest.
    assert!(continuum.points().len() <= 160 * servers.len() + 4);
    for hash in [hash(key), hash(&key[..key.len() / 2]), 0, u32::MAX] {
        let mut points = continuum.points();
        let first = points.next().unwrap();
        let walked = if first.hash >= hash { None } else { points.find(|p| p.hash >= hash) };
        assert_eq!(continuum.point_at(hash), walked.unwrap_or(first));
    }
    assert_eq!(continuum.server(key), continuum.point_at(hash(key)).server);
}
