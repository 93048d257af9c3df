//! What others are told of a member beside its id, and how its room keeps that.
//!
//! Under an id it is a text that the token of the member's connection keeps anyway. In a channel
//! nobody else keeps it, and a text of its own would take up 25 bytes more. So it stands with the
//! others of its stripe, one behind the other.

use arcstr::ArcStr;

use super::INFO_BYTES_MAX;
use crate::texts::Texts;

/// What an info takes up beside its text where that is no part of another one.
const INFO_COST: usize = 32;

/// What others are told of a member beside its id: one JSON value on one line. Copies share it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Info(ArcStr);

impl Info {
    /// Of `json`, one valid JSON value. Line breaks between its tokens are taken out.
    pub fn new(json: &str) -> Info {
        match memchr::memchr2(b'\r', b'\n', json.as_bytes()) {
            None => Info(json.into()),
            Some(_) => Info(json.replace(['\r', '\n'], "").into()),
        }
    }

    /// Of JSON that an info had: it is on one line.
    pub(super) fn of_line(json: &str) -> Info {
        Info(json.into())
    }

    /// The JSON.
    pub fn json(&self) -> &str {
        &self.0
    }
}

/// How a room keeps the info of a member, some of it in the `texts` of the stripe.
pub(super) trait KeptInfo {
    /// The JSON.
    fn json<'i>(&'i self, texts: &'i Texts) -> Option<&'i str>;

    /// The info, which may be a copy.
    fn info(&self, texts: &Texts) -> Option<Info>;

    /// What it is counted for where it has this JSON.
    fn cost(&self, json: &str) -> usize;

    /// Keeps this one from now on.
    fn put(&mut self, info: Option<&Info>, texts: &mut Texts);
}

impl KeptInfo for Option<Info> {
    fn json<'i>(&'i self, _: &'i Texts) -> Option<&'i str> {
        self.as_ref().map(Info::json)
    }

    fn info(&self, _: &Texts) -> Option<Info> {
        self.clone()
    }

    fn cost(&self, json: &str) -> usize {
        json.len() + INFO_COST
    }

    fn put(&mut self, info: Option<&Info>, _: &mut Texts) {
        *self = info.cloned();
    }
}

/// Where an info stands among the texts of its stripe.
#[derive(Debug)]
pub(super) struct TextPlace(u32);

// All infos together have a bound far below so many bytes.
const _: () = assert!(INFO_BYTES_MAX < u32::MAX as usize);

impl TextPlace {
    /// There is no text.
    const NONE: u32 = u32::MAX;

    /// The place, if it has one, to be changed when texts are moved.
    pub(super) fn place_mut(&mut self) -> Option<&mut u32> {
        (self.0 != TextPlace::NONE).then_some(&mut self.0)
    }
}

impl Default for TextPlace {
    fn default() -> TextPlace {
        TextPlace(TextPlace::NONE)
    }
}

impl KeptInfo for TextPlace {
    fn json<'i>(&'i self, texts: &'i Texts) -> Option<&'i str> {
        (self.0 != TextPlace::NONE).then(|| texts.at(self.0))
    }

    fn info(&self, texts: &Texts) -> Option<Info> {
        self.json(texts).map(Info::of_line)
    }

    fn cost(&self, json: &str) -> usize {
        Texts::bytes_of(json)
    }

    fn put(&mut self, info: Option<&Info>, texts: &mut Texts) {
        if let Some(&mut place) = self.place_mut() {
            texts.free(place);
        }
        self.0 = info.map_or(TextPlace::NONE, |info| texts.push(info.json()));
    }
}
