//! What came of updates: how many publishers sent beside how many listeners heard.

/// Counts of one measurement, in which each update is for one listener.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Delivery {
    /// Updates sent, and answered.
    pub sent: u64,
    /// Those of them that were answered with a refusal.
    pub refused: u64,
    /// Those that were taken within the time.
    pub in_time: u64,
    /// Updates that came at a listener.
    pub heard: u64,
    /// How long the measurement took.
    pub seconds: f64,
}

impl Delivery {
    /// Updates a second that were taken and heard. A refusal is quick, and is none.
    pub fn rate(&self) -> f64 {
        self.in_time.min(self.heard) as f64 / self.seconds
    }

    /// Updates that were refused, taken and not heard, or heard though nobody took them.
    pub fn faults(&self) -> u64 {
        self.refused + self.heard.abs_diff(self.sent - self.refused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn updates_count_if_they_were_taken_and_heard() {
        let good = Delivery { sent: 110, refused: 0, in_time: 100, heard: 110, seconds: 2.0 };
        assert_eq!((good.rate(), good.faults()), (50.0, 0));
        let refused = Delivery { refused: 110, in_time: 0, heard: 0, ..good };
        assert_eq!((refused.rate(), refused.faults()), (0.0, 110));
        let lost = Delivery { heard: 40, ..good };
        assert_eq!((lost.rate(), lost.faults()), (20.0, 70));
        let doubled = Delivery { heard: 111, ..good };
        assert_eq!((doubled.rate(), doubled.faults()), (50.0, 1));
    }
}
