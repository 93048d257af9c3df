//! Rings and keys that libketama printed for lists of servers: ours are the same, point for point.
//!
//! `tests/data/NAME.servers` is the list, `NAME.ring.txt` its continuum, a point and its server in
//! each line, and `NAME.keys.tsv` has a key, its hash, the point it lands on and the server.

use ketama::{Continuum, hash, parse};

/// The files of one list.
struct Original {
    servers: &'static str,
    ring: &'static str,
    keys: &'static str,
}

macro_rules! original {
    ($name:literal) => {
        Original {
            servers: include_str!(concat!("../data/", $name, ".servers")),
            ring: include_str!(concat!("../data/", $name, ".ring.txt")),
            keys: include_str!(concat!("../data/", $name, ".keys.tsv")),
        }
    };
}

/// The lists, and how many points and keys the original printed for each.
const ORIGINALS: [(Original, usize, usize); 4] = [
    (original!("equal5"), 800, 1000),
    (original!("equal5_minus3"), 640, 1000),
    (original!("unequal8"), 1264, 1000),
    // One server has 62 digests, where exact arithmetic gives 63.
    (original!("single3"), 472, 100),
];

fn continuum(servers: &str) -> Continuum {
    Continuum::new(&parse(servers.as_bytes()).unwrap()).unwrap()
}

#[test]
fn rings_are_those_of_the_original() {
    for (original, points, _) in &ORIGINALS {
        let continuum = continuum(original.servers);
        let ring: Vec<String> = continuum
            .points()
            .map(|point| format!("{} {}", point.hash, point.server.address()))
            .collect();
        assert_eq!(ring.len(), *points);
        assert_eq!(ring, original.ring.lines().collect::<Vec<_>>());
    }
}

#[test]
fn removal_of_one_of_five_moved_193_of_a_thousand_keys_all_of_them_its_own() {
    let rows = |keys: &'static str| {
        let fields = keys.lines().map(|line| line.split('\t').collect::<Vec<_>>());
        fields.map(|fields| (fields[0], fields[3])).collect::<Vec<_>>()
    };
    let (before, after) = (rows(ORIGINALS[0].0.keys), rows(ORIGINALS[1].0.keys));
    let moved: Vec<_> = before.iter().filter(|row| !after.contains(row)).collect();
    assert_eq!(moved.len(), 193);
    assert!(moved.iter().all(|(_, server)| *server == "10.0.1.3:11211"));
}

#[test]
fn keys_land_where_those_of_the_original_do() {
    for (original, _, keys) in &ORIGINALS {
        let continuum = continuum(original.servers);
        assert_eq!(original.keys.lines().count(), *keys);
        for line in original.keys.lines() {
            let fields: Vec<&str> = line.split('\t').collect();
            let [key, rest @ ..] = &fields[..] else { panic!("no key in {line:?}") };
            let point = continuum.point_at(hash(key.as_bytes()));
            let ours = [hash(key.as_bytes()).to_string(), point.hash.to_string()];
            assert_eq!(rest, [&ours[0], &ours[1], point.server.address()], "{key}");
            assert_eq!(continuum.server(key.as_bytes()), point.server, "{key}");
        }
    }
}
