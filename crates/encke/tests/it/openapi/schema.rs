//! JSON Schema, the small part of it that the description uses: whether a value is what a schema
//! says, and which members were met. A word that is not known here fails.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

const WORDS: [&str; 19] = [
    "$ref",
    "additionalProperties",
    "allOf",
    "const",
    "description",
    "enum",
    "example",
    "items",
    "maxItems",
    "minItems",
    "maxLength",
    "maximum",
    "minLength",
    "minimum",
    "oneOf",
    "pattern",
    "properties",
    "required",
    "type",
];

/// The schemas of the members of an object, by where each stands.
type Members<'d> = BTreeMap<&'d str, String>;

/// The places of all members that the schemas below `place` describe.
pub(super) fn described(document: &Value, place: &str) -> BTreeSet<String> {
    let schema = document.pointer(place).unwrap();
    let mut places = BTreeSet::new();
    for (key, value) in schema.as_object().into_iter().flatten() {
        let at = format!("{place}/{key}");
        match value {
            Value::Object(members) if key == "properties" => {
                for name in members.keys() {
                    let member = format!("{at}/{name}");
                    places.extend(described(document, &member));
                    places.insert(member);
                }
            }
            Value::Array(parts) => {
                let parts = (0..parts.len()).map(|part| format!("{at}/{part}"));
                places.extend(parts.flat_map(|part| described(document, &part)));
            }
            Value::Object(_) if key != "example" => places.extend(described(document, &at)),
            _ => {}
        }
    }
    places
}

fn follow(document: &Value, place: &str) -> String {
    let schema = document.pointer(place).unwrap_or_else(|| panic!("{place} is not there"));
    match schema.get("$ref").and_then(Value::as_str) {
        Some(reference) => follow(document, &reference[1..]),
        None => place.to_owned(),
    }
}

/// Whether `value` is what the schema at `place` says; the places of all its members.
pub(super) fn fits(
    document: &Value,
    value: &Value,
    place: &str,
) -> Result<BTreeSet<String>, String> {
    let place = follow(document, place);
    let schema = &document.pointer(&place).unwrap();
    for word in schema.as_object().unwrap().keys() {
        assert!(WORDS.contains(&word.as_str()), "{place} uses {word}, which is not checked");
    }
    let wrong = |what: &str| Err(format!("{place}: {value} is not {what}"));
    let is_of = |kind: &Value| match kind.as_str().unwrap() {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("{place}: the type {other}"),
    };
    match &schema["type"] {
        Value::Null => {}
        Value::Array(kinds) if kinds.iter().any(is_of) => {}
        kind @ Value::String(_) if is_of(kind) => {}
        kinds => return wrong(&kinds.to_string()),
    }
    if let Some(what) = broken(schema, value, &place) {
        return wrong(what);
    }
    let mut met = BTreeSet::new();
    if let Some(choices) = schema["oneOf"].as_array() {
        let places = (0..choices.len()).map(|n| format!("{place}/oneOf/{n}"));
        let fitting: Vec<_> = places.filter_map(|at| fits(document, value, &at).ok()).collect();
        match <[_; 1]>::try_from(fitting) {
            Ok([one]) => met.extend(one),
            Err(_) => return wrong("of exactly one kind"),
        }
    }
    if schema.get("items").is_some() {
        for item in value.as_array().into_iter().flatten() {
            met.extend(fits(document, item, &format!("{place}/items"))?);
        }
    }
    if let Some(object) = value.as_object() {
        met.extend(fit_members(document, object, &place)?);
    }
    Ok(met)
}

/// What of the bounds of `schema` the value does not keep.
fn broken(schema: &Value, value: &Value, place: &str) -> Option<&'static str> {
    let number = |word: &str| schema.get(word).and_then(Value::as_f64);
    if let Some(value) = value.as_f64()
        && (number("minimum").is_some_and(|least| value < least)
            || number("maximum").is_some_and(|most| value > most))
    {
        return Some("within its bounds");
    }
    if schema.get("const").is_some_and(|only| only != value)
        || schema["enum"].as_array().is_some_and(|all| !all.contains(value))
    {
        return Some("one of its values");
    }
    if let Some(items) = value.as_array() {
        let (count, least, most) = (items.len() as f64, number("minItems"), number("maxItems"));
        if least.is_some_and(|n| count < n) || most.is_some_and(|n| count > n) {
            return Some("of as many items as may be");
        }
    }
    if let Some(text) = value.as_str() {
        let length = text.len() as f64;
        let digits = |radix: fn(&u8) -> bool| text.len() == 16 && text.as_bytes().iter().all(radix);
        let fits = match schema["pattern"].as_str() {
            None => true,
            Some("^[0-9a-f]{16}$") => digits(u8::is_ascii_hexdigit),
            Some("^[0-9A-Za-z]{16}$") => digits(u8::is_ascii_alphanumeric),
            Some(id) if id.starts_with("^[^\\s/?#") => !text.contains([' ', '/', '?', '#']),
            Some(other) => panic!("{place}: the pattern {other} is not checked"),
        };
        let (least, most) = (number("minLength"), number("maxLength"));
        if !fits || least.is_some_and(|n| length < n) || most.is_some_and(|n| length > n) {
            return Some("of its pattern and length");
        }
    }
    None
}

fn fit_members(
    document: &Value,
    object: &Map<String, Value>,
    place: &str,
) -> Result<BTreeSet<String>, String> {
    let (mut members, mut required) = (Members::new(), BTreeSet::new());
    gather(document, place, &mut members, &mut required);
    if let Some(missing) = required.into_iter().find(|name| !object.contains_key(*name)) {
        return Err(format!("{place}: {missing} is missing"));
    }
    let others = document.pointer(place).unwrap().get("additionalProperties");
    let mut met = BTreeSet::new();
    for (name, value) in object {
        match members.get(name.as_str()) {
            Some(at) => {
                met.insert(at.clone());
                met.extend(fits(document, value, at)?);
            }
            None if others.is_some_and(Value::is_object) => {
                met.extend(fits(document, value, &format!("{place}/additionalProperties"))?);
            }
            // An object of which nothing is said.
            None if members.is_empty() && others.is_none() => {}
            None => return Err(format!("{place}: {name} is not described")),
        }
    }
    Ok(met)
}

/// The members of an object by its schema at `place` and all schemas that it is made of.
fn gather<'d>(
    document: &'d Value,
    place: &str,
    members: &mut Members<'d>,
    required: &mut BTreeSet<&'d str>,
) {
    let place = follow(document, place);
    let schema = document.pointer(&place).unwrap();
    for name in schema["properties"].as_object().into_iter().flat_map(Map::keys) {
        members.insert(name, format!("{place}/properties/{name}"));
    }
    required.extend(schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str));
    for part in 0..schema["allOf"].as_array().map_or(0, Vec::len) {
        gather(document, &format!("{place}/allOf/{part}"), members, required);
    }
}
