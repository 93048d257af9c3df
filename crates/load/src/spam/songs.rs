//! What the users of a demo listen to: titles out of the concert hall, all older than a century.
//!
//! Everybody walks the list in steps of their own song after song, so two events in a row about
//! one user never name the same. No title holds what JSON has to escape; a test reads them all.

/// The list; a power of two, so that every odd step walks all of it.
const SONGS: [&str; 64] = [
    "Air on the G String",
    "Also sprach Zarathustra",
    "Arabesque No. 1",
    "Åse's Death",
    "Boat on the Ocean",
    "Canon in D",
    "Capriccio espagnol",
    "Casta diva",
    "Clair de lune",
    "Dance of the Blessed Spirits",
    "Dance of the Hours",
    "Danse macabre",
    "Eine kleine Nachtmusik",
    "Finlandia",
    "Fireworks Music",
    "Flight of the Bumblebee",
    "Für Elise",
    "Gnossienne No. 3",
    "Goldberg Variations: Aria",
    "Greensleeves",
    "Gymnopédie No. 1",
    "Habanera",
    "Hungarian Dance No. 5",
    "In the Hall of the Mountain King",
    "Jesu, Joy of Man's Desiring",
    "Jupiter, the Bringer of Jollity",
    "Jupiter Symphony",
    "Kinderszenen: Träumerei",
    "La mer",
    "La campanella",
    "Liebestraum No. 3",
    "Lakmé: Flower Duet",
    "Maple Leaf Rag",
    "Mars, the Bringer of War",
    "Méditation from Thaïs",
    "Mercury, the Winged Messenger",
    "Moonlight Sonata",
    "Morning Mood",
    "Neptune, the Mystic",
    "New World Symphony",
    "Night on Bald Mountain",
    "Nimrod",
    "Nocturne in E-flat",
    "Ode to Joy",
    "Peer Gynt: Solveig's Song",
    "Pavane for a Dead Princess",
    "Pictures at an Exhibition",
    "Prelude to the Afternoon of a Faun",
    "Raindrop Prelude",
    "Rêverie",
    "Saturn, the Bringer of Old Age",
    "Scheherazade",
    "Song to the Moon",
    "Surprise Symphony",
    "Swan Lake",
    "The Blue Danube",
    "The Entertainer",
    "The Four Seasons: Winter",
    "The Sorcerer's Apprentice",
    "The Swan",
    "Trout Quintet",
    "Venus, the Bringer of Peace",
    "Vltava",
    "Waltz of the Flowers",
];

/// What `subject` listens to in its event `number`.
pub(super) fn song(subject: u64, number: u32) -> &'static str {
    // Fibonacci hashing (Knuth, TAOCP 6.4): neighbours start far apart and take other steps.
    let hash = subject.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let (start, step) = (hash >> 58, hash >> 40 | 1);
    let place = start.wrapping_add(step.wrapping_mul(number.into()));
    SONGS[place as usize % SONGS.len()]
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn everybody_hears_all_songs_before_one_comes_again() {
        for subject in [0, 1, 4711, u64::MAX >> 1] {
            let songs: HashSet<_> = (1..=64).map(|number| song(subject, number)).collect();
            assert_eq!(songs.len(), SONGS.len(), "{subject}");
        }
        assert_ne!(song(1, 1), song(2, 1));
    }

    #[test]
    fn no_title_has_to_be_escaped() {
        for title in SONGS {
            assert_eq!(serde_json::to_string(title).unwrap(), format!("\"{title}\""));
        }
    }
}
