//! Connections: so many at once, each with a time in which its requests must come.
//!
//! One that has no request under way may be closed at any time: when there are too many, the one that waits longest is, and
//! all of them when the server stops.

use super::linger::Lingering;
use axum::Router;
use axum::body::{Body, HttpBody};
use axum::response::Response;
use hyper::body::{Bytes, Frame, Incoming, SizeHint};
use hyper::server::conn::http1::Builder;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::collections::HashMap;
use std::convert::Infallible;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, watch};
use tower_service::Service;

/// How long what was answered may take to go out when a connection is closed.
const LAST: Duration = Duration::from_secs(1);
/// When it is looked again whether something has changed.
const AGAIN: Duration = Duration::from_millis(5);
/// Descriptors that are left to everything else: models, caches, the terminal.
const OTHERS: usize = 64;

/// How many there may be and how long they may take.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Connections at once; as many as there are descriptors if it is not said.
    pub most: Option<usize>,
    /// A request's header must come in this time, which begins with the connection or the end of the last answer.
    pub header: Duration,
}

impl Bounds {
    fn most(&self) -> usize {
        self.most.unwrap_or_else(|| descriptors().saturating_sub(OTHERS).max(8))
    }
}

/// The most descriptors that this process may have; it may change while it runs.
fn descriptors() -> usize {
    #[cfg(unix)]
    {
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: it writes to the struct that it is given
        if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) } == 0 {
            return usize::try_from(limit.rlim_cur).unwrap_or(usize::MAX);
        }
    }
    1024
}

/// What is known of a connection.
struct State {
    /// Since when no request is under way.
    idle: Option<Instant>,
    /// Whether anything was answered, which may be on its way still.
    has_answered: bool,
    /// Closes it.
    close: Arc<Notify>,
    is_closing: bool,
}

/// All connections, by number.
#[derive(Default)]
struct Open(Mutex<HashMap<u64, State>>);

impl Open {
    fn all(&self) -> MutexGuard<'_, HashMap<u64, State>> {
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }
    fn len(&self) -> usize {
        self.all().len()
    }
    /// Closes the one that waits longest for a request.
    fn close_one(&self) {
        let mut all = self.all();
        let idle = all.values_mut().filter(|s| s.idle.is_some() && !s.is_closing);
        if let Some(longest) = idle.min_by_key(|s| s.idle) {
            longest.is_closing = true;
            longest.close.notify_one();
        }
    }
}

/// One of them, until it ends.
struct Connection {
    open: Arc<Open>,
    id: u64,
}
impl Connection {
    fn begin(&self) {
        if let Some(state) = self.open.all().get_mut(&self.id) {
            state.idle = None;
        }
    }
    fn end(&self) {
        if let Some(state) = self.open.all().get_mut(&self.id) {
            (state.idle, state.has_answered) = (Some(Instant::now()), true);
        }
    }
    /// Whether no request is under way, and the last answer had time to go out.
    fn has_rested(&self) -> bool {
        let rest = |s: &State| s.idle.is_some_and(|since| !s.has_answered || since.elapsed() >= LAST);
        self.open.all().get(&self.id).is_none_or(rest)
    }
}
impl Drop for Connection {
    fn drop(&mut self) {
        self.open.all().remove(&self.id);
    }
}

/// A request under way: until its answer is written, or no one reads it any more.
struct Busy(Arc<Connection>);
impl Busy {
    fn begin(connection: &Arc<Connection>) -> Busy {
        connection.begin();
        Busy(connection.clone())
    }
}
impl Drop for Busy {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// A body with what lasts as long as it does.
struct Lasting {
    body: Body,
    _busy: Busy,
}
impl HttpBody for Lasting {
    type Data = Bytes;
    type Error = axum::Error;
    fn poll_frame(
        mut self: Pin<&mut Self>,
        ctx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(ctx)
    }
    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }
    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Serves until `stop` says so, then until what is under way has ended.
pub async fn serve(listener: TcpListener, router: Router, bounds: Bounds, mut stop: watch::Receiver<bool>) {
    let open = Arc::new(Open::default());
    for id in 0.. {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stop.wait_for(|is_over| *is_over) => break,
        };
        match accepted {
            Ok((socket, _)) => {
                while open.len() >= bounds.most() && !*stop.borrow() {
                    open.close_one();
                    tokio::time::sleep(AGAIN).await;
                }
                let close = Arc::new(Notify::new());
                let idle = Some(Instant::now());
                let state = State { idle, has_answered: false, close: close.clone(), is_closing: false };
                open.all().insert(id, state);
                let connection = Arc::new(Connection { open: open.clone(), id });
                tokio::spawn(answer(socket, router.clone(), bounds.header, connection, close, stop.clone()));
            }
            // there are no descriptors: one that is not used gives its own up
            Err(_) => {
                open.close_one();
                tokio::time::sleep(AGAIN).await;
            }
        }
    }
    drop(listener);
    while open.len() > 0 {
        tokio::time::sleep(AGAIN).await;
    }
}

/// Answers the requests of one connection.
async fn answer(
    socket: TcpStream,
    router: Router,
    header: Duration,
    connection: Arc<Connection>,
    close: Arc<Notify>,
    mut stop: watch::Receiver<bool>,
) {
    let of_request = connection.clone();
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        let busy = Busy::begin(&of_request);
        let (parts, body) = request.into_parts();
        let body = Body::new(Lingering::new(body, &parts.headers));
        let answer = router.clone().call(hyper::Request::from_parts(parts, body));
        async move {
            let response: Response = answer.await?;
            Ok::<_, Infallible>(response.map(|body| Lasting { body, _busy: busy }))
        }
    });
    let mut builder = Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(header);
    let mut served = pin!(builder.serve_connection(TokioIo::new(socket), service));
    tokio::select! {
        // whatever went wrong, the client is gone
        _ = served.as_mut() => return,
        _ = stop.wait_for(|is_over| *is_over) => {}
        () = close.notified() => {}
    }
    served.as_mut().graceful_shutdown();
    // half a header holds nothing up, an answer under way goes on
    while !connection.has_rested() {
        if tokio::time::timeout(AGAIN, served.as_mut()).await.is_ok() {
            return;
        }
    }
}
