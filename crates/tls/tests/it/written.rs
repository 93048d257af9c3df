//! Connections that change hands again and again: the keys are written down and read back between
//! any two things that happen, and rustls at the other end must not notice.

use tls::{Alert, Keys, Version};

use crate::both::{Role, connected};
use crate::parties::{ALL, Ours};

fn change_hands(ours: &mut Ours) {
    let mut successor = Box::new(Keys::default());
    assert!(successor.read_back(&*ours.keys.write_down()));
    assert_eq!((successor.version(), successor.suite()), (ours.keys.version(), ours.keys.suite()));
    ours.keys = successor;
}

#[test]
fn both_directions_go_on_through_updates_torn_records_and_the_end() {
    for (version, suite) in ALL {
        for role in [Role::Server, Role::Client] {
            let (mut ours, mut full) = connected(role, version, suite);
            for round in 0..50_usize {
                change_hands(&mut ours);
                let text = vec![round as u8; 1 + round * 401];
                assert_eq!(full.hear(&ours.say(&text)).unwrap(), text);
                if version == Version::Tls13 && round % 4 == 0 {
                    full.0.refresh_traffic_keys().unwrap();
                }
                let bytes = full.say(&text);
                let (first, second) = bytes.split_at(round * 7 % bytes.len());
                let mut heard = ours.hear(first).unwrap();
                change_hands(&mut ours);
                heard.extend(ours.hear(second).unwrap());
                assert_eq!(heard, text, "{version:?} {suite:?} {role:?} {round}");
                assert_eq!(ours.keys.owe_update(), version == Version::Tls13 && round % 4 == 0);
            }
            change_hands(&mut ours);
            let end = ours.alert(Alert::CLOSE_NOTIFY);
            change_hands(&mut ours);
            assert!(ours.keys.are_write_closed());
            full.hear(&end).unwrap();
            full.0.send_close_notify();
            let _ = ours.hear(&full.out()).unwrap();
            change_hands(&mut ours);
            ours.is_closed = false;
            assert_eq!(ours.hear(b"what is behind the end").unwrap(), b"");
            assert!(ours.is_closed);
        }
    }
}
