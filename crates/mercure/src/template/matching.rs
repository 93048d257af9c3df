//! Runs a template over a topic.
//!
//! The set of places at which an item may begin is carried from item to item. A backtracking search
//! would take exponential time for `{a}{b}{c}…`.

use super::{Expression, Item, More, Template, bits_of};

/// A set of places within a topic, in growing order.
type Places = Vec<usize>;

/// No way to be within an expression at a place.
const NOT_HERE: u16 = u16::MAX;

impl Template {
    /// Whether `topic` is an expansion.
    pub(crate) fn matches(&self, topic: &str) -> bool {
        let (mut items, mut topic) = (&*self.items, topic.as_bytes());
        // Its ends decide most, and leave one expression of most templates.
        if let [Item::Literal(text), others @ ..] = items {
            let Some(rest) = topic.strip_prefix(text.as_bytes()) else { return false };
            (items, topic) = (others, rest);
        }
        if let [others @ .., Item::Literal(text)] = items {
            let Some(rest) = topic.strip_suffix(text.as_bytes()) else { return false };
            (items, topic) = (others, rest);
        }
        if let [Item::Expression(only)] = items {
            return only.takes(topic);
        }
        let (mut from, mut to) = (vec![0], Places::new());
        for item in items {
            to.clear();
            match item {
                Item::Literal(text) => literal(text.as_bytes(), topic, &from, &mut to),
                Item::Expression(expression) => {
                    expression.run(topic, from.iter().copied(), &mut |place| to.push(place));
                }
            }
            if to.is_empty() {
                return false;
            }
            std::mem::swap(&mut from, &mut to);
        }
        from.last() == Some(&topic.len())
    }
}

fn literal(text: &[u8], topic: &[u8], from: &[usize], to: &mut Places) {
    for &place in from {
        if topic[place..].starts_with(text) {
            to.push(place + text.len());
        }
    }
}

impl Expression {
    /// Whether all of `text` is what it adds.
    fn takes(self, text: &[u8]) -> bool {
        let mut last = None;
        self.run(text, std::iter::once(0), &mut |place| last = Some(place));
        last == Some(text.len())
    }

    /// Shows `to` the places behind the expression, for it may begin at each of `from`.
    ///
    /// What is known of a place is how many separators came before it. Of two numbers the one that
    /// lets more follow is kept, so a place has one.
    fn run(self, topic: &[u8], from: impl Iterator<Item = usize>, to: &mut impl FnMut(usize)) {
        // Numbers at this place and the three behind it: an escape is the longest step.
        let mut ahead = [NOT_HERE; 4];
        let mut from = from.peekable();
        let mut place = from.peek().copied().unwrap_or(topic.len() + 1);
        while place <= topic.len() {
            let may_begin = from.next_if_eq(&place).is_some();
            let byte = topic.get(place).copied();
            match self.first {
                _ if !may_begin => {}
                None => self.offer(&mut ahead[0], 0),
                Some(first) if byte == Some(first) => self.offer(&mut ahead[1], 0),
                Some(_) => {}
            }
            let separators = ahead[0];
            if separators != NOT_HERE || may_begin {
                to(place);
            }
            if let Some(byte) = byte.filter(|_| separators != NOT_HERE) {
                let value = if separators == 0 { self.first_value } else { self.later_value };
                if bits_of(byte) & value != 0 {
                    self.offer(&mut ahead[1], separators);
                }
                if byte == self.separator {
                    match self.more {
                        More::Any => self.offer(&mut ahead[1], 1),
                        More::AtMost(most) if separators < most => {
                            self.offer(&mut ahead[1], separators + 1);
                        }
                        More::AtMost(_) => {}
                    }
                }
                if byte == b'%' && is_escape(&topic[place..]) {
                    self.offer(&mut ahead[3], separators);
                }
            }
            ahead = [ahead[1], ahead[2], ahead[3], NOT_HERE];
            place = match ahead {
                [NOT_HERE, NOT_HERE, NOT_HERE, _] => match from.peek() {
                    Some(&next) => next,
                    None => return,
                },
                _ => place + 1,
            };
        }
    }

    /// With a bound on the values fewer separators leave more of them. Without one, a value behind
    /// a separator may hold all that the first may.
    fn offer(self, known: &mut u16, separators: u16) {
        *known = match self.more {
            _ if *known == NOT_HERE => separators,
            More::AtMost(_) => separators.min(*known),
            More::Any => separators.max(*known),
        };
    }
}

fn is_escape(bytes: &[u8]) -> bool {
    bytes.get(1..3).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
}
