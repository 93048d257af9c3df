//! What is to be taken back of subscribers of the hub ([`crate::shard::subscriber_notes`]).

/// What there is of a subscriber to be taken back when it goes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(in crate::shard) struct HubMarks(pub(in crate::shard) u8);

impl HubMarks {
    /// It has shown a token.
    pub(in crate::shard) const HAS_TOKEN: HubMarks = HubMarks(1);
    /// It may hear who is subscribed.
    pub(in crate::shard) const HEARS_SUBSCRIPTIONS: HubMarks = HubMarks(2);
    /// Its token has a payload.
    pub(in crate::shard) const HAS_PAYLOAD: HubMarks = HubMarks(4);
    /// It has its name from another process.
    pub(in crate::shard) const HAS_NAME: HubMarks = HubMarks(8);

    /// These, if they are so.
    pub(in crate::shard) fn of(marks: &[(HubMarks, bool)]) -> HubMarks {
        let those = marks.iter().filter(|(_, is_so)| *is_so);
        HubMarks(those.fold(0, |all, (mark, _)| all | mark.0))
    }

    /// Whether that is so.
    pub(in crate::shard) fn has(self, mark: HubMarks) -> bool {
        self.0 & mark.0 != 0
    }
}
