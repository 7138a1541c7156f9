//! The thread that owns the model. Handlers send it requests and get events back through bounded channels; it waits for no
//! reader: one that is full is dropped, and so is one that left.

use frit_llm::Embedder;
use frit_llm::engine::{Counts, Engine, Event, Id, Logprobs, Reason, Request};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

/// Events that a reader may be behind.
pub const BEHIND: usize = 512;
/// Orders that wait for the thread between two steps.
const ORDERS: usize = 1024;

/// What runs requests: an engine, or a stand-in in tests.
pub trait Runner {
    fn submit(&mut self, request: Request) -> Result<Id, String>;
    fn cancel(&mut self, id: Id);
    fn step(&mut self) -> Result<Vec<Event>, String>;
    fn is_idle(&self) -> bool;
    fn gauges(&self) -> Gauges;
    /// One vector of length 1 for a text.
    fn embed(&mut self, _tokens: &[u32]) -> Result<Vec<f32>, String> {
        Err("this model generates text; it gives no embeddings".into())
    }
}

/// An encoder: it embeds, and generates nothing.
pub struct Embeds(pub Embedder);

impl Runner for Embeds {
    fn submit(&mut self, _: Request) -> Result<Id, String> {
        Err("this model embeds texts; it generates none".into())
    }
    fn cancel(&mut self, _: Id) {}
    fn step(&mut self) -> Result<Vec<Event>, String> {
        Ok(vec![])
    }
    fn is_idle(&self) -> bool {
        true
    }
    fn gauges(&self) -> Gauges {
        Gauges::default()
    }
    fn embed(&mut self, tokens: &[u32]) -> Result<Vec<f32>, String> {
        self.0.embed(tokens).map_err(|e| e.message().to_string())
    }
}

/// How an engine is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Gauges {
    pub counts: Counts,
    pub running: usize,
    pub waiting: usize,
    pub free_blocks: usize,
    pub blocks: usize,
}

impl Runner for Engine {
    fn submit(&mut self, request: Request) -> Result<Id, String> {
        Engine::submit(self, request).map_err(|e| e.message().to_string())
    }
    fn cancel(&mut self, id: Id) {
        Engine::cancel(self, id);
    }
    fn step(&mut self) -> Result<Vec<Event>, String> {
        Engine::step(self).map_err(|e| e.message().to_string())
    }
    fn is_idle(&self) -> bool {
        Engine::is_idle(self)
    }
    fn gauges(&self) -> Gauges {
        let ((running, waiting), (free_blocks, blocks)) = (self.load(), self.memory());
        Gauges { counts: self.counts(), running, waiting, free_blocks, blocks }
    }
}

/// What a reader gets, with the place of its request among those of one call.
pub type Happened = (usize, What);

/// One thing that happened to a request.
pub enum What {
    Token(u32, Option<Logprobs>),
    Done(Reason),
}

enum Order {
    Submit {
        request: Box<Request>,
        place: usize,
        to: mpsc::Sender<Happened>,
        reply: oneshot::Sender<Result<Id, String>>,
    },
    Cancel(Id),
    Embed {
        tokens: Vec<u32>,
        reply: oneshot::Sender<Result<Vec<f32>, String>>,
    },
}

/// What is shared with the thread.
#[derive(Default)]
pub struct Shared {
    pub gauges: Mutex<Gauges>,
    /// Whether the model is there.
    pub ready: AtomicBool,
    /// Why the model is not there and will not be.
    pub failed: Mutex<Option<String>>,
    pub slow: AtomicU64,
    pub left: AtomicU64,
}

impl Shared {
    fn fail(&self, why: String) {
        self.failed.lock().unwrap_or_else(|e| e.into_inner()).get_or_insert(why);
    }
}

/// Tells of a thread that ends for any reason.
struct End<'a>(&'a Shared);
impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.fail("the thread of the model ended".into());
    }
}

/// The way to the thread.
#[derive(Clone)]
pub struct Worker {
    orders: SyncSender<Order>,
    pub shared: Arc<Shared>,
}

/// Why a request was not taken.
#[derive(Debug, PartialEq)]
pub enum Refused {
    /// Too many wait.
    Busy,
    /// The thread is gone.
    Gone,
    /// The request itself.
    Bad(String),
}

/// A request on its way: dropping it ends it.
pub struct Ticket {
    /// Its place among those of one call.
    pub place: usize,
    id: Id,
    orders: SyncSender<Order>,
}

impl Drop for Ticket {
    fn drop(&mut self) {
        // where there is no room, the thread finds the reader gone with its next token
        let _ = self.orders.try_send(Order::Cancel(self.id));
    }
}

impl Worker {
    /// Starts the thread; `make` opens the model there.
    pub fn start<R: Runner>(make: impl FnOnce() -> Result<R, String> + Send + 'static) -> Worker {
        let (orders, inbox) = sync_channel(ORDERS);
        let shared = Arc::new(Shared::default());
        let worker = Worker { orders, shared: shared.clone() };
        std::thread::spawn(move || {
            let end = End(&shared);
            match make() {
                Ok(runner) => {
                    shared.ready.store(true, Ordering::Release);
                    serve(runner, &inbox, &shared);
                }
                Err(e) => end.0.fail(e),
            }
        });
        worker
    }
    /// A request; its events come to `to`.
    pub async fn submit(
        &self,
        request: Request,
        place: usize,
        to: mpsc::Sender<Happened>,
    ) -> Result<Ticket, Refused> {
        let (reply, answer) = oneshot::channel();
        let order = Order::Submit { request: Box::new(request), place, to, reply };
        match self.orders.try_send(order) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => return Err(Refused::Busy),
            Err(TrySendError::Disconnected(_)) => return Err(Refused::Gone),
        }
        let id = answer.await.map_err(|_| Refused::Gone)?.map_err(Refused::Bad)?;
        Ok(Ticket { place, id, orders: self.orders.clone() })
    }
    /// The vector of a text. Texts of several calls take turns.
    pub async fn embed(&self, tokens: Vec<u32>) -> Result<Vec<f32>, Refused> {
        let (reply, answer) = oneshot::channel();
        match self.orders.try_send(Order::Embed { tokens, reply }) {
            Ok(()) => answer.await.map_err(|_| Refused::Gone)?.map_err(Refused::Bad),
            Err(TrySendError::Full(_)) => Err(Refused::Busy),
            Err(TrySendError::Disconnected(_)) => Err(Refused::Gone),
        }
    }
    pub fn gauges(&self) -> Gauges {
        self.shared.gauges.lock().map(|g| *g).unwrap_or_default()
    }
}

struct Reader {
    place: usize,
    to: mpsc::Sender<Happened>,
}

fn serve(mut runner: impl Runner, inbox: &Receiver<Order>, shared: &Shared) {
    let mut readers: HashMap<Id, Reader> = HashMap::new();
    loop {
        // while there is nothing to do the thread sleeps
        let mut next = match runner.is_idle() {
            true => match inbox.recv_timeout(Duration::from_secs(1)) {
                Ok(order) => Some(order),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return,
            },
            false => inbox.try_recv().ok(),
        };
        while let Some(order) = next {
            obey(order, &mut runner, &mut readers);
            next = inbox.try_recv().ok();
        }
        let events = runner.step().unwrap_or_else(|e| {
            eprintln!("frit serve: {e}");
            vec![]
        });
        for event in events {
            hand_on(event, &mut runner, &mut readers, shared);
        }
        if let Ok(mut gauges) = shared.gauges.lock() {
            *gauges = runner.gauges();
        }
    }
}

fn obey(order: Order, runner: &mut impl Runner, readers: &mut HashMap<Id, Reader>) {
    match order {
        Order::Submit { request, place, to, reply } => {
            let id = runner.submit(*request);
            if let Ok(id) = id {
                readers.insert(id, Reader { place, to });
            }
            // whoever asked left meanwhile
            if let Err(Ok(id)) = reply.send(id) {
                readers.remove(&id);
                runner.cancel(id);
            }
        }
        // whoever asked may have left: then it need not be computed
        Order::Embed { tokens, reply } if !reply.is_closed() => _ = reply.send(runner.embed(&tokens)),
        Order::Embed { .. } => {}
        Order::Cancel(id) => {
            if readers.remove(&id).is_some() {
                runner.cancel(id);
            }
        }
    }
}

fn hand_on(event: Event, runner: &mut impl Runner, readers: &mut HashMap<Id, Reader>, shared: &Shared) {
    let (id, what) = match event {
        Event::Token { id, token, logprobs } => (id, What::Token(token, logprobs)),
        Event::Done { id, reason } => (id, What::Done(reason)),
    };
    let is_done = matches!(what, What::Done(_));
    let Some(reader) = readers.get(&id) else { return };
    let sent = reader.to.try_send((reader.place, what));
    if let Err(e) = &sent {
        let count = if matches!(e, mpsc::error::TrySendError::Full(_)) { &shared.slow } else { &shared.left };
        count.fetch_add(1, Ordering::Relaxed);
    }
    if is_done || sent.is_err() {
        readers.remove(&id);
        if !is_done {
            runner.cancel(id);
        }
    }
}
