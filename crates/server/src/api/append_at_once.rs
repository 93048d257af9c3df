//! `POST /v1/stream/{path}` as a worker's lane serves it: without a wait, or not at all.
//!
//! Whatever can be seen to be wrong, or may take long, is left to [`super::stream_requests`], with
//! nothing done and nothing counted.

use engine::LaneBell;

use super::at_once::{AtOnce, RequestAtOnce};
use super::state::Api;
use super::streams::{AppendTexts, PostedAppend, path_of};

/// An append as a lane has read it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct AppendHead<'r> {
    /// The path of the URL, without a query.
    pub(crate) target: &'r str,
    pub(crate) texts: AppendTexts<'r>,
}

impl Api {
    /// Hands on the append of a request, if it may be made.
    pub(crate) fn append_at_once(
        &self,
        request: &RequestAtOnce<'_>,
        head: &AppendHead<'_>,
        bell: LaneBell,
    ) -> AtOnce {
        self.posted_append(request, head, bell).map_or(AtOnce::Elsewhere, AtOnce::Append)
    }

    fn posted_append(
        &self,
        request: &RequestAtOnce<'_>,
        head: &AppendHead<'_>,
        bell: LaneBell,
    ) -> Option<PostedAppend> {
        let RequestAtOnce { authorization, is_forwarded, peer, body, .. } = *request;
        let streams = self.streams()?;
        let permission = self.access.permission_at_once(authorization, is_forwarded, peer)?;
        let path = path_of(head.target).ok().filter(|path| permission.lets_send_about(path))?;
        streams.append_at_once(&path, head.texts, body, bell)
    }
}
