//! Patterns in groups, by what their matches begin and end with, and by what stands between their
//! variables.
//!
//! A text is looked for by each of its beginnings that has the length of some pattern's. Below each
//! that is found it is looked for by its ends likewise, and by what is inside for patterns that end
//! with a variable. So patterns that all begin alike are told apart by what stands behind one.
//! Those that nothing tells apart are all tried.
//!
//! Groups have no texts but a hash of them, under a key of their own. Two with one hash are found
//! together, which only makes more to be tried.
//!
//! Cost: some 120 bytes a pattern beside itself, and up to 280 where its beginning is its own. A
//! look hashes what it looks for.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, Hash, Hasher, RandomState};
use std::sync::Arc;

use crate::Selector;
use crate::limits::LITERAL_BYTES_MAX;

/// Texts that are looked for in the groups in the time that it takes to try a pattern.
const HASHES_OF_A_LOOK: usize = 8;

/// Bytes of a topic that are looked through in that time.
const SCANNED_OF_A_LOOK: usize = 256;

/// How much of what stands between variables is looked for: the last bytes of it, since numbers
/// stand there. Of less than the first no look is worth it, and of few sizes a topic of 4 KiB is
/// looked through quickly.
const INSIDE_BYTES: [usize; 4] = [4, 8, 16, 32];

/// Patterns of which a text identifies one.
#[derive(Clone, Debug)]
pub(super) struct Groups<T> {
    /// By the numbers that the tables below have; `None` where one is free.
    live: Vec<Option<Live<T>>>,
    free: Vec<u32>,
    by_text: HashMap<ByText, u32>,
    /// By the hash of the beginning, and of the end or what is inside, where there is such.
    groups: ByHash<Group>,
    /// How long beginnings are.
    beginnings: Lengths,
    /// How long ends are, by the hash of the beginning that stands before them.
    ends: ByHash<Lengths>,
    /// What is inside, by the hash of the beginning that stands before it.
    insides: ByHash<Insides>,
    hasher: RandomState,
}

#[derive(Clone, Debug)]
pub(super) struct Live<T> {
    pub(super) selector: Arc<Selector>,
    pub(super) value: T,
    /// Its place in its group.
    at: u32,
}

/// The patterns of one beginning and one end.
#[derive(Clone, Debug)]
enum Group {
    /// As most are.
    One(u32),
    Several(Vec<u32>),
}

/// What may still be spent on a topic, in patterns that are tried.
pub(super) struct Looks {
    tries: usize,
    /// How many texts were looked for.
    hashed: usize,
}

impl Looks {
    pub(super) fn new(tries: usize) -> Looks {
        Looks { tries, hashed: 0 }
    }

    /// Spends some, if there are so many.
    pub(super) fn spend(&mut self, tries: usize) -> Option<()> {
        self.tries = self.tries.checked_sub(tries)?;
        Some(())
    }

    /// Spends what it takes to look for one more text.
    fn hash(&mut self) -> Option<()> {
        self.hashed += 1;
        self.spend(usize::from(self.hashed.is_multiple_of(HASHES_OF_A_LOOK)))
    }
}

impl<T> Default for Groups<T> {
    fn default() -> Groups<T> {
        Groups {
            live: Vec::new(),
            free: Vec::new(),
            by_text: HashMap::new(),
            groups: ByHash::default(),
            beginnings: Lengths::default(),
            ends: ByHash::default(),
            insides: ByHash::default(),
            hasher: RandomState::new(),
        }
    }
}

impl<T> Groups<T> {
    pub(super) fn is_empty(&self) -> bool {
        self.by_text.is_empty()
    }

    /// What belongs to the pattern of this text.
    pub(super) fn get(&self, text: &str) -> Option<&T> {
        let live = self.live[*self.by_text.get(text)? as usize].as_ref();
        live.map(|live| &live.value)
    }

    pub(super) fn get_mut(&mut self, text: &str) -> Option<&mut T> {
        let live = self.live[*self.by_text.get(text)? as usize].as_mut();
        live.map(|live| &mut live.value)
    }

    /// Puts in a pattern that is not there.
    pub(super) fn insert(&mut self, selector: Arc<Selector>, value: T) {
        let number = self.free.pop().unwrap_or(self.live.len() as u32);
        let Known { beginning, end, inside } = Known::of(&selector);
        self.beginnings.add(beginning.len());
        let mut hash = self.hasher.hash_one(beginning);
        if !end.is_empty() {
            self.ends.entry(hash).or_default().add(end.len());
            hash = self.hasher.hash_one((hash, end));
        }
        if !inside.is_empty() {
            self.insides.entry(hash).or_default().add(inside);
            hash = self.hasher.hash_one((inside, hash));
        }
        let mut at = 0;
        let group = self.groups.entry(hash);
        group.and_modify(|group| at = group.push(number)).or_insert(Group::One(number));
        self.by_text.insert(ByText(Arc::clone(&selector)), number);
        let live = Some(Live { selector, value, at });
        match self.live.get_mut(number as usize) {
            Some(free) => *free = live,
            None => self.live.push(live),
        }
    }

    /// Takes the pattern of this text out, with what belongs to it.
    pub(super) fn remove(&mut self, text: &str) -> Option<T> {
        let number = self.by_text.remove(text)?;
        let Live { selector, value, at } = self.live[number as usize].take()?;
        self.free.push(number);
        let Known { beginning, end, inside } = Known::of(&selector);
        self.beginnings.take(beginning.len());
        let mut hash = self.hasher.hash_one(beginning);
        if !end.is_empty() {
            let lengths = self.ends.get_mut(&hash);
            if lengths.is_some_and(|lengths| lengths.take(end.len())) {
                self.ends.remove(&hash);
            }
            hash = self.hasher.hash_one((hash, end));
        }
        if !inside.is_empty() {
            let insides = self.insides.get_mut(&hash);
            if insides.is_some_and(|insides| insides.lengths.take(inside.len())) {
                self.insides.remove(&hash);
            }
            hash = self.hasher.hash_one((inside, hash));
        }
        match self.groups.get_mut(&hash) {
            Some(Group::Several(numbers)) if numbers.len() > 1 => {
                numbers.swap_remove(at as usize);
                // The last one has come to its place.
                let moved = numbers.get(at as usize).map(|&moved| moved as usize);
                let moved = moved.and_then(|moved| self.live[moved].as_mut());
                moved.into_iter().for_each(|moved| moved.at = at);
            }
            _ => drop(self.groups.remove(&hash)),
        }
        Some(value)
    }

    /// Visits the patterns that may match `text` by what is known of their matches, each once, as
    /// long as `looks` are left. `None` once there are none.
    pub(super) fn each(
        &self,
        text: &str,
        looks: &mut Looks,
        visit: &mut dyn FnMut(&Live<T>),
    ) -> Option<()> {
        let text = text.as_bytes();
        for beginning in self.beginnings.of(text.len()).map(|len| &text[..len]) {
            looks.hash()?;
            let hash = self.hasher.hash_one(beginning);
            self.visit(hash, looks, visit)?;
            self.inside(hash, text, looks, visit)?;
            // Most groups have none.
            let Some(ends) = self.ends.get(&hash) else { continue };
            for end in ends.of(text.len()).map(|len| &text[text.len() - len..]) {
                looks.hash()?;
                self.visit(self.hasher.hash_one((hash, end)), looks, visit)?;
            }
        }
        Some(())
    }

    /// Visits those of a beginning that have something of the text inside.
    fn inside(
        &self,
        beginning: u64,
        text: &[u8],
        looks: &mut Looks,
        visit: &mut dyn FnMut(&Live<T>),
    ) -> Option<()> {
        let Some(insides) = self.insides.get(&beginning) else { return Some(()) };
        looks.spend(insides.lengths.0.len() * text.len() / SCANNED_OF_A_LOOK)?;
        let mut found = Vec::new();
        for inside in insides.of(text) {
            looks.hash()?;
            let hash = self.hasher.hash_one((inside, beginning));
            // It may be there more than once.
            if self.groups.contains_key(&hash) && !found.contains(&hash) {
                found.push(hash);
                self.visit(hash, looks, visit)?;
            }
        }
        Some(())
    }

    /// Visits those of a group.
    fn visit(&self, hash: u64, looks: &mut Looks, visit: &mut dyn FnMut(&Live<T>)) -> Option<()> {
        let numbers = self.groups.get(&hash).map_or(&[][..], Group::numbers);
        looks.spend(numbers.len())?;
        numbers.iter().filter_map(|number| self.live[*number as usize].as_ref()).for_each(visit);
        Some(())
    }
}

impl Group {
    fn numbers(&self) -> &[u32] {
        match self {
            Group::One(number) => std::slice::from_ref(number),
            Group::Several(numbers) => numbers,
        }
    }

    /// One more. Its place.
    fn push(&mut self, number: u32) -> u32 {
        let at = self.numbers().len() as u32;
        match self {
            Group::One(first) => *self = Group::Several(vec![*first, number]),
            Group::Several(numbers) => numbers.push(number),
        }
        at
    }
}

/// Which lengths texts have, in growing order, and how many have each.
#[derive(Clone, Debug, Default)]
struct Lengths(Vec<(u8, u32)>);

const _: () = assert!(LITERAL_BYTES_MAX <= u8::MAX as usize);

impl Lengths {
    fn place(&self, len: usize) -> Result<usize, usize> {
        self.0.binary_search_by_key(&len, |(known, _)| usize::from(*known))
    }

    fn add(&mut self, len: usize) {
        match self.place(len) {
            Ok(at) => self.0[at].1 += 1,
            Err(at) => self.0.insert(at, (len as u8, 1)),
        }
    }

    /// Takes back one [`Lengths::add`]. Whether nothing is left.
    fn take(&mut self, len: usize) -> bool {
        if let Ok(at) = self.place(len) {
            self.0[at].1 -= 1;
            if self.0[at].1 == 0 {
                self.0.remove(at);
            }
        }
        self.0.is_empty()
    }

    /// Those that a text of `most` bytes may have.
    fn of(&self, most: usize) -> impl Iterator<Item = usize> {
        self.0.iter().map(|(len, _)| usize::from(*len)).take_while(move |len| *len <= most)
    }
}

/// What stands inside some patterns.
#[derive(Clone, Debug, Default)]
struct Insides {
    lengths: Lengths,
    /// The last bytes that they have had, each a bit.
    last: [u64; 4],
}

impl Insides {
    fn add(&mut self, inside: &[u8]) {
        self.lengths.add(inside.len());
        if let Some(&last) = inside.last() {
            self.last[usize::from(last / 64)] |= 1 << (last % 64);
        }
    }

    /// All that may be one of them in a text.
    fn of<'t>(&self, text: &'t [u8]) -> impl Iterator<Item = &'t [u8]> {
        let ends = |last: u8| self.last[usize::from(last / 64)] & 1 << (last % 64) != 0;
        self.lengths.of(text.len()).flat_map(move |len| {
            text.windows(len).filter(move |window| window.last().is_some_and(|last| ends(*last)))
        })
    }
}

/// What is known of all matches of a pattern.
struct Known<'p> {
    beginning: &'p [u8],
    end: &'p [u8],
    /// Only of those without an end: else patterns of many ends, each with the same inside, would
    /// have a topic looked through once for each.
    inside: &'p [u8],
}

impl Known<'_> {
    fn of(selector: &Selector) -> Known<'_> {
        let (beginning, end) = selector.edges();
        let beginning = beginning.as_bytes();
        let inside = if end.is_empty() { selector.inside() } else { "" };
        let len = INSIDE_BYTES.into_iter().rfind(|len| *len <= inside.len());
        Known {
            beginning: &beginning[..beginning.len().min(LITERAL_BYTES_MAX)],
            end: last_of(end, LITERAL_BYTES_MAX),
            inside: last_of(inside, len.unwrap_or(0)),
        }
    }
}

/// The last bytes of a text.
fn last_of(text: &str, most: usize) -> &[u8] {
    &text.as_bytes()[text.len().saturating_sub(most)..]
}

/// A selector that is found by its text.
#[derive(Clone, Debug)]
struct ByText(Arc<Selector>);

impl Borrow<str> for ByText {
    fn borrow(&self) -> &str {
        self.0.text()
    }
}

impl Hash for ByText {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.text().hash(state);
    }
}

impl PartialEq for ByText {
    fn eq(&self, other: &ByText) -> bool {
        self.0.text() == other.0.text()
    }
}

impl Eq for ByText {}

/// A table whose keys are hashes.
type ByHash<V> = HashMap<u64, V, BuildHasherDefault<AsItIs>>;

/// The hash of a hash.
#[derive(Default)]
struct AsItIs(u64);

impl Hasher for AsItIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn write(&mut self, bytes: &[u8]) {
        debug_assert!(false, "{bytes:?} is no hash");
    }
}
