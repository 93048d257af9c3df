//! What a client is told whose request was on its way from one program to the other when that was
//! lost.

use axum::http::Method;
use httpd::problem::ApiProblem;
use proto::ProblemKind;

/// Why the successor did not answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Lost {
    /// It cannot be reached: it has heard nothing.
    Unasked,
    /// It was asked and did not answer.
    Silent,
}

impl Lost {
    /// The answer to a request with `method`.
    pub(super) fn problem(self, method: &Method) -> ApiProblem {
        match self {
            Lost::Unasked => ApiProblem::unavailable(
                "A new version of the server has taken over and cannot be reached. Nothing was \
                 done: send this again.",
            ),
            Lost::Silent if method.is_safe() => ApiProblem::unavailable(
                "A new version of the server has taken over and went away before it answered. Ask \
                 again.",
            ),
            // Without Retry-After, by which clients would send it again of themselves.
            Lost::Silent => ApiProblem::of(
                ProblemKind::OutcomeUnknown,
                "A new version of the server has taken over and went away before it answered: it \
                 is not known whether this was done. Look before you send it again.",
            ),
        }
    }

    /// The answer to a line of a stream of sends, and to all after it.
    pub(super) fn problem_of_lines(self) -> ApiProblem {
        match self {
            Lost::Unasked => ApiProblem::unavailable(
                "A new version of the server has taken over and cannot be reached: it takes \
                 neither this line nor those after it. Nothing was sent of them: send them again.",
            ),
            Lost::Silent => ApiProblem::of(
                ProblemKind::OutcomeUnknown,
                "A new version of the server has taken over and went away: it is not known \
                 whether this line and those after it were sent. Look before you send them again.",
            ),
        }
    }
}

/// 503: the barrier stays closed.
pub fn upgrade_hangs() -> ApiProblem {
    ApiProblem::unavailable(
        "The server is being upgraded, and that takes too long. Nothing was done: send this again.",
    )
}
