//! What is left of a body when its request is answered.
//!
//! A client may write all of a body before it reads an answer. A connection that is closed meanwhile takes the answer with it,
//! so the rest is read and dropped, within bounds.

use axum::http::HeaderMap;
use axum::http::header::EXPECT;
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

/// So many bytes of it are dropped at most.
const MOST: usize = 1 << 30;
/// And for so long.
const TIME: Duration = Duration::from_secs(20);

/// A body that reads itself to its end when it is dropped.
pub struct Lingering {
    body: Option<Incoming>,
    /// The client sends nothing until it is told to.
    waits: bool,
}

impl Lingering {
    pub fn new(body: Incoming, headers: &HeaderMap) -> Lingering {
        Lingering { body: Some(body), waits: headers.contains_key(EXPECT) }
    }
}

impl Body for Lingering {
    type Data = Bytes;
    type Error = hyper::Error;
    fn poll_frame(
        mut self: Pin<&mut Self>,
        ctx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        self.waits = false;
        self.body.as_mut().map_or(Poll::Ready(None), |body| Pin::new(body).poll_frame(ctx))
    }
    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }
    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or(SizeHint::with_exact(0), Body::size_hint)
    }
}

impl Drop for Lingering {
    fn drop(&mut self) {
        let Some(body) = self.body.take().filter(|b| !self.waits && !b.is_end_stream()) else { return };
        // without a runtime the server is at its end
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(tokio::time::timeout(TIME, drain(body)));
        }
    }
}

async fn drain(mut body: Incoming) {
    let mut size = 0;
    while let Some(Ok(frame)) = poll_fn(|ctx| Pin::new(&mut body).poll_frame(ctx)).await {
        size += frame.data_ref().map_or(0, Bytes::len);
        if size > MOST {
            return;
        }
    }
}
