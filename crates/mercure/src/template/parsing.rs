//! Reads a template (RFC 6570, section 2) as strictly as the reference hub's library does.

use super::{COMMA, EQUALS, Expression, Item, More, RESERVED, Template, TemplateFault, UNRESERVED};
use crate::limits::EXPRESSIONS_MAX;

impl Template {
    /// Reads a template.
    ///
    /// # Errors
    /// It is none, or has too many expressions.
    pub(crate) fn parse(text: &str) -> Result<Template, TemplateFault> {
        let mut items = Vec::new();
        let (mut rest, mut expressions) = (text, 0);
        while let Some(open) = rest.find('{') {
            push_literal(&mut items, &rest[..open])?;
            let inside = &rest[open + 1..];
            let close = inside.find('}').ok_or(TemplateFault::Invalid)?;
            push_expression(&mut items, expression(&inside[..close])?);
            expressions += 1;
            rest = &inside[close + 1..];
        }
        push_literal(&mut items, rest)?;
        match expressions {
            0 => Err(TemplateFault::Invalid),
            1..=EXPRESSIONS_MAX => Ok(Template { items: items.into() }),
            _ => Err(TemplateFault::TooManyExpressions),
        }
    }
}

/// Beside an expression that takes whatever it adds, an expression changes nothing, and would only
/// make each match longer.
fn push_expression(items: &mut Vec<Item>, expression: Expression) {
    match items.last_mut() {
        Some(Item::Expression(last)) if last.takes_all_of(expression) => {}
        Some(Item::Expression(last)) if expression.takes_all_of(*last) => *last = expression,
        _ => items.push(Item::Expression(expression)),
    }
}

impl Expression {
    /// Whether it adds any number of letters of one set, and all that the `other` adds is of it:
    /// `{+a}` takes all of any, `{a}` of those that are like it.
    fn takes_all_of(self, other: Expression) -> bool {
        let is_set = |one: Expression| one.first.is_none() && one.first_value == one.later_value;
        let is_of_it = self.first_value & RESERVED != 0
            || is_set(other) && self.first_value & other.first_value == other.first_value;
        is_set(self) && is_of_it
    }
}

fn push_literal(items: &mut Vec<Item>, text: &str) -> Result<(), TemplateFault> {
    if !text.chars().all(|letter| letter == '%' || is_literal(letter)) || !has_whole_escapes(text) {
        return Err(TemplateFault::Invalid);
    }
    if !text.is_empty() {
        items.push(Item::Literal(text.into()));
    }
    Ok(())
}

/// Whether two hexadecimal digits follow each `%`.
fn has_whole_escapes(text: &str) -> bool {
    text.split('%').skip(1).all(|rest| {
        let digits = rest.as_bytes().get(..2);
        digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    })
}

/// `literals` of RFC 6570, section 2.1, with `'` (erratum 6937).
fn is_literal(letter: char) -> bool {
    match u32::from(letter) {
        0x21 | 0x23..=0x24 | 0x26..=0x3B | 0x3D | 0x3F..=0x5B | 0x5D | 0x5F => true,
        0x61..=0x7A | 0x7E => true,
        0x00..=0x9F => false,
        0xFDD0..=0xFDEF | 0xFFF0..=0xFFFF | 0xE_0000..=0xE_0FFF => false,
        code => code & 0xFFFE != 0xFFFE,
    }
}

/// What stands between the braces.
fn expression(inside: &str) -> Result<Expression, TemplateFault> {
    let operator = inside.bytes().next().unwrap_or_default();
    let (first, separator, named, bytes) = match operator {
        b'+' => (None, b',', false, UNRESERVED | RESERVED),
        b'#' => (Some(b'#'), b',', false, UNRESERVED | RESERVED),
        b'.' | b'/' => (Some(operator), operator, false, UNRESERVED | COMMA),
        b';' => (Some(b';'), b';', true, UNRESERVED | COMMA),
        b'?' | b'&' => (Some(operator), b'&', true, UNRESERVED | COMMA),
        _ => (None, b',', false, UNRESERVED | COMMA),
    };
    let has_operator = matches!(operator, b'+' | b'#' | b'.' | b'/' | b';' | b'?' | b'&');
    let names = if has_operator { &inside[1..] } else { inside };
    let explodes = names.split(',').map(explodes).collect::<Result<Vec<bool>, _>>()?;
    let is_any = explodes.contains(&true);
    let with_equals = |is_so: bool| if is_so { bytes | EQUALS } else { bytes };
    let more = match is_any {
        true => More::Any,
        false => More::AtMost(u16::try_from(explodes.len() - 1).unwrap_or(u16::MAX)),
    };
    Ok(Expression {
        first,
        separator,
        first_value: with_equals(named || explodes[0]),
        later_value: with_equals(named || is_any),
        more,
    })
}

/// Whether a variable may have any number of values (`*`); a length (`:3`) is not looked at.
fn explodes(variable: &str) -> Result<bool, TemplateFault> {
    let (name, explodes) = match variable.split_once([':', '*']) {
        None => (variable, false),
        Some((name, "")) if variable.ends_with('*') => (name, true),
        Some((name, digits)) if variable.as_bytes()[name.len()] == b':' => {
            let is_length = (1..=4).contains(&digits.len())
                && digits.bytes().all(|byte| byte.is_ascii_digit())
                && !digits.starts_with('0');
            if !is_length {
                return Err(TemplateFault::Invalid);
            }
            (name, false)
        }
        Some(_) => return Err(TemplateFault::Invalid),
    };
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'%');
    let is_name = name.bytes().all(is_letter)
        && has_whole_escapes(name)
        && name.split('.').all(|part| !part.is_empty());
    if is_name { Ok(explodes) } else { Err(TemplateFault::Invalid) }
}
