//! What nodes of a cluster call subscriptions, in the room of the hub: subjects, of which a node
//! says in the log which it has.
//!
//! ```text
//! HEX/KgSELECTOR a subscription that a token grants; HEX/KoSELECTOR one that none does. K is p of
//!                a plain one, t of a template, u of a URL pattern. Its info is the id of its
//!                connection
//! HEX~           the subscriber's payload, which is its info
//! !NODE          the node wants to know who is subscribed; its info is 1.0 if it wants changes
//!                in that form, too
//! +NODE          the node has more subscriptions than are listed
//! ?NODE          the node has told that changes were lost, each time with another info
//! ```
//!
//! In the order of their bytes the subscriptions of a subscriber stand before its payload. Who goes
//! is told to be gone in that order, and who comes is said to have come in the other one.

use cluster::limits::ID_BYTES_MAX;
use topics::{HeldKind, HeldSelector, SubscriberNumber};

/// Digits of a subscriber's number.
const DIGITS: usize = 32;

/// One of these.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum HubSubject {
    Subscription(SubscriberNumber, HeldSelector),
    Payload(SubscriberNumber),
    Wants(Box<str>),
    Overfull(Box<str>),
    Lost(Box<str>),
}

impl HubSubject {
    /// Its text; `None` of a subscription with too long a selector, which is neither listed nor
    /// told.
    pub(super) fn text(&self) -> Option<String> {
        let text = match self {
            HubSubject::Subscription(who, HeldSelector { kind, text, is_granted }) => {
                let kind = match kind {
                    HeldKind::Plain => 'p',
                    HeldKind::Template => 't',
                    HeldKind::UrlPattern => 'u',
                };
                let mark = if *is_granted { 'g' } else { 'o' };
                format!("{who:032x}/{kind}{mark}{text}")
            }
            HubSubject::Payload(who) => format!("{who:032x}~"),
            HubSubject::Wants(node) => format!("!{node}"),
            HubSubject::Overfull(node) => format!("+{node}"),
            HubSubject::Lost(node) => format!("?{node}"),
        };
        (text.len() <= ID_BYTES_MAX).then_some(text)
    }

    /// Reads it; `None` of what no node of this version would say.
    pub(super) fn parse(text: &str) -> Option<HubSubject> {
        let rest = text.get(1..)?;
        match text.as_bytes().first()? {
            b'!' => return Some(HubSubject::Wants(rest.into())),
            b'+' => return Some(HubSubject::Overfull(rest.into())),
            b'?' => return Some(HubSubject::Lost(rest.into())),
            _ => {}
        }
        let (number, of) = text.split_at_checked(DIGITS)?;
        let who = SubscriberNumber::from_str_radix(number, 16).ok()?;
        if of == "~" {
            return Some(HubSubject::Payload(who));
        }
        let mut of = of.strip_prefix('/')?.chars();
        let kind = match of.next()? {
            'p' => HeldKind::Plain,
            't' => HeldKind::Template,
            'u' => HeldKind::UrlPattern,
            _ => return None,
        };
        let of = of.as_str();
        let (selector, is_granted) = match (of.strip_prefix('g'), of.strip_prefix('o')) {
            (Some(selector), _) => (selector, true),
            (None, selector) => (selector?, false),
        };
        Some(HubSubject::Subscription(
            who,
            HeldSelector { kind, text: selector.into(), is_granted },
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subject_is_read_as_it_was_made_and_a_payload_stands_behind_its_subscriptions() {
        let who = 7 << 100 | 5;
        let held =
            |kind, text: &str, is_granted| HeldSelector { kind, text: text.into(), is_granted };
        let one = |text, is_granted| {
            HubSubject::Subscription(who, held(HeldKind::Plain, text, is_granted))
        };
        let pattern = |kind| HubSubject::Subscription(who, held(kind, "/:id", true));
        for subject in [
            one("https://a.test/{id}", true),
            one("~", false),
            one("é", true),
            pattern(HeldKind::Template),
            pattern(HeldKind::UrlPattern),
            HubSubject::Payload(who),
            HubSubject::Wants("n1".into()),
            HubSubject::Overfull("n1".into()),
            HubSubject::Lost("n1".into()),
        ] {
            let text = subject.text().unwrap();
            assert_eq!(HubSubject::parse(&text), Some(subject));
        }
        assert!(one("\u{10ffff}", true).text() < HubSubject::Payload(who).text());
        assert_eq!(one(&"x".repeat(ID_BYTES_MAX - DIGITS - 2), true).text(), None);
        for other in ["", "x", "7/gx", &"0".repeat(DIGITS), &format!("{:032x}/pxx", 7)] {
            assert_eq!(HubSubject::parse(other), None, "{other}");
        }
    }
}
