//! How a stream tells a place, as a request asks for it and a stream does it.

/// How a stream tells a place, beside its head.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum PlaceStyle {
    /// Not at all. So libraries of SSE in other programs than browsers hear no empty event, of
    /// which some make one at each blank line, some of an `id` line that the end of the stream cuts
    /// off from its event.
    #[default]
    InHead,
    /// SSE to a page's `fetch`: an `id` line without a blank line behind it, of which readers take
    /// note at once or not at all.
    InLine,
    /// SSE to a browser's `EventSource`, which hides the head: a block with an `id` line and no
    /// data. A reader takes note of the id and hears nothing (section 9.2.6, at the blank line).
    InBlock,
    /// A message of its own: asked for with `?next=1`, for every reader and every transport.
    InMessage,
}
