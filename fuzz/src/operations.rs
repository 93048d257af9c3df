//! The hub's tables: a list of operations on the real one and on a naive model of it.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use arbitrary::{Result, Unstructured};
use hub::{ConnRef, Directory, Id, IdText, Names};

/// Logins and logouts of a few connections under a few ids, some of them between the slices of a
/// walk, which sees everybody once who is there all the time.
pub fn directory(data: &[u8]) {
    let directory = Directory::default();
    let mut model: BTreeMap<Id, BTreeSet<ConnRef>> = BTreeMap::new();
    let mut walk: Option<Walk> = None;
    let mut input = Unstructured::new(data);
    while !input.is_empty() {
        let Ok((id, conn, login)) = login_or_logout(&mut input) else { break };
        let conns = model.entry(id).or_default();
        if !login {
            directory.logout(id, conn);
            conns.remove(&conn);
        } else if conns.insert(conn) {
            directory.login(id, conn);
        }
        check_visit(&directory, id, conns);
        let mut under_way = walk.unwrap_or_else(|| Walk::new(id, conns));
        under_way.note(id, conn);
        walk = under_way.step(&directory).then_some(under_way);
    }
    for (id, conns) in &model {
        assert_eq!(directory.connections(*id), conns.len());
    }
    let online = model.values().filter(|conns| !conns.is_empty()).count();
    assert_eq!(directory.ids_online(), online);
}

/// Few connections are visited at once, many are left to be walked.
fn check_visit(directory: &Directory, id: Id, conns: &BTreeSet<ConnRef>) {
    let (mut visited, mut crowded) = (Vec::new(), Vec::new());
    directory.visit(&[id], &mut crowded, |conn| visited.push(conn));
    if crowded.is_empty() {
        assert!(visited.iter().eq(conns), "{id:?}: {visited:?}, not {conns:?}");
    } else {
        assert!(visited.is_empty() && conns.len() > 4, "{id:?}: {visited:?} of {conns:?}");
    }
}

/// A walk through the connections of an id while others come and go.
struct Walk {
    id: Id,
    /// Those that have been there all the time.
    stayed: BTreeSet<ConnRef>,
    /// Those that have been there at some time.
    seen_at_all: BTreeSet<ConnRef>,
    after: Option<ConnRef>,
    visited: Vec<ConnRef>,
}

impl Walk {
    fn new(id: Id, conns: &BTreeSet<ConnRef>) -> Walk {
        let (stayed, seen_at_all) = (conns.clone(), conns.clone());
        Walk { id, stayed, seen_at_all, after: None, visited: Vec::new() }
    }

    /// `conn` has come or gone, unless the walk has just begun.
    fn note(&mut self, id: Id, conn: ConnRef) {
        if id == self.id && self.after.is_some() {
            self.stayed.remove(&conn);
            self.seen_at_all.insert(conn);
        }
    }

    /// Visits two more. `false` when that was the end.
    fn step(&mut self, directory: &Directory) -> bool {
        let visit = |conn| self.visited.push(conn);
        self.after = directory.walk(self.id, self.after, 2, visit);
        if self.after.is_some() {
            return true;
        }
        assert!(self.visited.is_sorted_by(|one, next| one < next), "{:?}", self.visited);
        let visited: BTreeSet<ConnRef> = self.visited.iter().copied().collect();
        assert!(visited.is_superset(&self.stayed) && visited.is_subset(&self.seen_at_all));
        false
    }
}

/// Few enough of each that pairs come back, enough that an id gathers a crowd.
fn login_or_logout(input: &mut Unstructured<'_>) -> Result<(Id, ConnRef, bool)> {
    let choice: [u8; 2] = input.arbitrary()?;
    let id = Id::integer(u64::from(choice[0] >> 5)).unwrap();
    let conn = ConnRef::new(usize::from(choice[1] % 3), usize::from(choice[1] / 16), 0);
    Ok((id, conn, choice[0] & 3 != 0))
}

#[derive(Default)]
struct NameModel {
    id: Option<Id>,
    online: u32,
    pinned: bool,
}

const NAMES: [&str; 4] = ["alice", "bob", "photo:789", "007"];

/// Names are counted after so many operations, besides before a restart and at the end: a count
/// locks all stripes of the table, which took three quarters of the time of all bodies together.
const COUNTED_EACH: usize = 16;

/// Names that come online, go, and are stored and forgotten; a restart in between.
pub fn names(data: &[u8]) {
    let mut names = Names::new([9; 16]);
    let mut model: [NameModel; 4] = Default::default();
    let mut retired = HashSet::new();
    for (step, &choice) in data.iter().enumerate() {
        let place = usize::from(choice) % NAMES.len();
        let (text, known) = (IdText::parse(NAMES[place]).unwrap(), &mut model[place]);
        match choice / 16 {
            0..=4 => {
                known.online += 1;
                meet(known, names.acquire(text), &retired);
            }
            5..=8 if known.online > 0 => {
                known.online -= 1;
                names.release(known.id.unwrap());
            }
            9..=10 => {
                known.pinned = true;
                meet(known, names.pin(text), &retired);
            }
            11..=12 if known.pinned => {
                known.pinned = false;
                names.unpin(known.id.unwrap());
            }
            15 => {
                check_count(&names, &model);
                names = restart(&names, &mut model);
                retired.clear();
            }
            _ => {}
        }
        for known in &mut model {
            if known.online == 0 && !known.pinned {
                retired.extend(known.id.take());
            }
        }
        check_names(&names, &model);
        if step % COUNTED_EACH == 0 {
            check_count(&names, &model);
        }
    }
    check_count(&names, &model);
}

/// A name keeps its id while it is known, and a new one gets an id that nobody had before.
fn meet(known: &mut NameModel, id: Id, retired: &HashSet<Id>) {
    assert!(known.id.is_none_or(|before| before == id));
    assert!(!retired.contains(&id), "an id was given out again");
    known.id = Some(id);
}

/// Connections are gone, what is stored comes back under its id. Ids of before may then be given
/// out again, but not one that is stored.
fn restart(names: &Names, model: &mut [NameModel; 4]) -> Names {
    let restarted = Names::new(names.key());
    for (text, known) in NAMES.iter().zip(model) {
        known.online = 0;
        match known.id {
            Some(id) if known.pinned => restarted.restore(id, text),
            _ => known.id = None,
        }
    }
    restarted
}

fn check_names(names: &Names, model: &[NameModel; 4]) {
    for (text, known) in NAMES.iter().zip(model) {
        assert_eq!(names.lookup(IdText::parse(text).unwrap()), known.id, "{text}");
        if let Some(id) = known.id {
            assert_eq!(names.text(id).as_deref(), Some(*text));
        }
    }
}

/// A name that is forgotten is no longer counted.
fn check_count(names: &Names, model: &[NameModel; 4]) {
    assert_eq!(names.len(), model.iter().filter(|known| known.id.is_some()).count());
}
