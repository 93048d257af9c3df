//! The line that a demo keeps up to date.

use crate::console::{LiveLine, OutputError, tell};

/// A line that is kept up to date, where it does not get between the lines for programs.
pub(super) struct Live(Option<LiveLine>);

impl Live {
    /// Without one each text is a line of its own, on standard error.
    pub(super) fn new(is_for_programs: bool) -> Live {
        Live((!is_for_programs).then(LiveLine::new))
    }

    pub(super) fn set(&self, line: String) -> Result<(), OutputError> {
        match &self.0 {
            Some(live) => live.set(line),
            None => {
                tell(line);
                Ok(())
            }
        }
    }
}
