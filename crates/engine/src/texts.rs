//! Short texts by path, as [`well_known`](crate::well_known) shows them.

/// Texts by path. There are so few that they are searched one by one.
#[derive(Debug, Default)]
pub(crate) struct Texts(pub(crate) Vec<(String, String)>);

impl Texts {
    /// The text at `path`.
    pub(crate) fn get(&self, path: &str) -> Option<&str> {
        let found = self.0.iter().find(|(at, _)| at == path);
        found.map(|(_, text)| text.as_str())
    }
}
