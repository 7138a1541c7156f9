//! Batches made ahead, by threads, while the last one is used.
//!
//! ```text
//! order (shuffled by seed and epoch) ──> batch 0, 3, 6, ..  worker 0 ──> queue ─┐
//!                                        batch 1, 4, 7, ..  worker 1 ──> queue ─┼──> Epoch, in the order of batches
//!                                        batch 2, 5, 8, ..  worker 2 ──> queue ─┘
//! ```
//!
//! Which batches come, and in which order, depends on the seed and the epoch alone, not on the threads.

use super::{Batches, Dataset};
use frit_tensor::{Device, Error, Result};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::JoinHandle;

/// Batches of a data set, made by threads ahead of their use.
///
/// ```
/// use frit_nn::data::{Loader, Samples};
///
/// // Any function from an index to a sample is a data set; its numbers become tensors.
/// let squares = Samples::new(10, |i| Ok((i as f32, (i * i) as f32)));
/// let loader = Loader::new(squares, 4)?.shuffle(7).workers(2);
/// for epoch in 0..2 {
///     for batch in loader.epoch(epoch) {
///         let (x, y) = batch?;
///         assert_eq!(x.square().to_vec::<f32>()?, y.to_vec::<f32>()?);
///     }
/// }
/// # Ok::<(), frit_tensor::Error>(())
/// ```
pub struct Loader<D> {
    data: Arc<D>,
    size: usize,
    seed: Option<u64>,
    drop_last: bool,
    workers: usize,
    ahead: usize,
}

impl<D: Dataset + 'static> Loader<D> {
    /// Batches of `size` samples, in order, made by one thread, two ahead.
    #[track_caller]
    pub fn new(data: D, size: usize) -> Result<Loader<D>> {
        match size {
            0 => Err(Error::new("loader", "a batch of 0 samples")),
            _ => {
                Ok(Loader { data: Arc::new(data), size, seed: None, drop_last: false, workers: 1, ahead: 2 })
            }
        }
    }
    /// In an order that depends on the seed and the epoch.
    pub fn shuffle(mut self, seed: u64) -> Loader<D> {
        self.seed = Some(seed);
        self
    }
    /// Without the last batch where it is smaller than the others.
    pub fn drop_last(mut self) -> Loader<D> {
        self.drop_last = true;
        self
    }
    /// How many threads make batches; 0 makes each when it is asked for, without a thread.
    pub fn workers(mut self, workers: usize) -> Loader<D> {
        self.workers = workers;
        self
    }
    /// How many batches each thread may be ahead.
    pub fn prefetch(mut self, batches: usize) -> Loader<D> {
        self.ahead = batches;
        self
    }
    /// The data set.
    pub fn data(&self) -> &D {
        &self.data
    }
    /// How many batches an epoch has.
    pub fn len(&self) -> usize {
        let samples = self.data.len();
        if self.drop_last { samples / self.size } else { samples.div_ceil(self.size) }
    }
    /// No batches at all.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// The batches of an epoch. Threads start here and end with the iterator, or when it is dropped before its end.
    /// Tensors are made on the device of the calling thread.
    pub fn epoch(&self, epoch: u64) -> Epoch<D> {
        // mixed, so that seed 1 in epoch 2 is not seed 2 in epoch 1
        let seed = self.seed.map(|s| s ^ epoch.wrapping_add(1).wrapping_mul(0xd134_2543_de82_ef95));
        let batches = Batches::new(self.data.len(), self.size)
            .map(|b| seed.into_iter().fold(b, Batches::shuffle))
            .map(|b| if self.drop_last { b.drop_last() } else { b })
            .map_or(Vec::new(), Iterator::collect);
        Epoch::start(self.data.clone(), batches, self.workers, self.ahead)
    }
}

/// The batches of one epoch, in order. A batch that could not be made is an `Err`; the next ones still come.
pub struct Epoch<D: Dataset> {
    data: Arc<D>,
    batches: Arc<Vec<Vec<usize>>>,
    next: usize,
    queues: Vec<Receiver<Result<D::Batch>>>,
    threads: Vec<JoinHandle<()>>,
}

impl<D: Dataset + 'static> Epoch<D> {
    fn start(data: Arc<D>, batches: Vec<Vec<usize>>, workers: usize, ahead: usize) -> Epoch<D> {
        let batches = Arc::new(batches);
        let device = Device::current();
        let (mut queues, mut threads) = (Vec::new(), Vec::new());
        for worker in 0..workers.min(batches.len()) {
            let (send, queue) = sync_channel(ahead);
            let (data, mine, device) = (data.clone(), batches.clone(), device.clone());
            let work = move || {
                for samples in mine.iter().skip(worker).step_by(workers) {
                    let batch = device
                        .clone()
                        .and_then(|device| Device::scope(&device, || make(&*data, samples)))
                        .and_then(|batch| batch);
                    // no one listens any more: the epoch was dropped
                    if send.send(batch).is_err() {
                        return;
                    }
                }
            };
            match std::thread::Builder::new().name(format!("frit-loader-{worker}")).spawn(work) {
                Ok(thread) => {
                    queues.push(queue);
                    threads.push(thread);
                }
                // without its threads the epoch makes its batches itself
                Err(_) => {
                    (queues, threads) = (Vec::new(), Vec::new());
                    break;
                }
            }
        }
        Epoch { data, batches, next: 0, queues, threads }
    }
}

/// A batch, or an error if making it failed or panicked.
fn make<D: Dataset>(data: &D, samples: &[usize]) -> Result<D::Batch> {
    catch_unwind(AssertUnwindSafe(|| data.batch(samples))).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().map(|s| s.to_string());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
        Err(Error::elsewhere("loader", format!("the data set panicked: {text}")))
    })
}

impl<D: Dataset + 'static> Iterator for Epoch<D> {
    type Item = Result<D::Batch>;
    fn next(&mut self) -> Option<Self::Item> {
        let samples = self.batches.get(self.next)?;
        let batch = match self.queues.is_empty() {
            true => make(&*self.data, samples),
            false => self.queues[self.next % self.queues.len()]
                .recv()
                .unwrap_or_else(|_| Err(Error::elsewhere("loader", "a thread that makes batches is gone"))),
        };
        self.next += 1;
        Some(batch)
    }
    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.batches.len() - self.next;
        (left, Some(left))
    }
}
impl<D: Dataset + 'static> ExactSizeIterator for Epoch<D> {}

impl<D: Dataset> Drop for Epoch<D> {
    fn drop(&mut self) {
        // closing the queues wakes threads that wait for room in them
        self.queues.clear();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Samples;
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn numbers(
        loader: &Loader<impl Dataset<Batch = frit_tensor::Tensor> + 'static>,
        epoch: u64,
    ) -> Vec<Vec<i32>> {
        loader.epoch(epoch).map(|b| b.unwrap().to_vec::<i32>().unwrap()).collect()
    }

    #[test]
    fn batches_do_not_depend_on_the_threads() {
        let with =
            |workers| Loader::new(Samples::new(23, |i| Ok(i as i32)), 4).unwrap().shuffle(5).workers(workers);
        let alone = numbers(&with(0), 3);
        assert_eq!((alone.len(), with(0).len()), (6, 6));
        assert_ne!(alone, numbers(&with(0), 4));
        for workers in [1, 2, 7, 100] {
            assert_eq!(numbers(&with(workers).prefetch(workers % 3), 3), alone);
        }
        let mut all = alone.concat();
        all.sort();
        assert_eq!(all, (0..23).collect::<Vec<_>>());
        let full = numbers(&with(2).drop_last(), 3);
        assert_eq!((full.len(), with(2).drop_last().len()), (5, 5));
        assert_eq!(
            numbers(&Loader::new(Samples::new(5, |i| Ok(i as i32)), 2).unwrap(), 0),
            [vec![0, 1], vec![2, 3], vec![4]]
        );
    }

    #[test]
    fn errors_and_panics_of_the_data_come_out_in_their_place() {
        let data = Samples::new(6, |i| match i {
            2 => Err(Error::elsewhere("data", "no such picture")),
            5 => panic!("on purpose"),
            i => Ok(i as i32),
        });
        let loader = Loader::new(data, 2).unwrap().workers(2);
        let outcomes: Vec<String> = loader
            .epoch(0)
            .map(|b| b.and_then(|t| t.to_vec::<i32>()).map_or_else(|e| e.to_string(), |v| format!("{v:?}")))
            .collect();
        assert_eq!(outcomes[0], "[0, 1]");
        assert!(
            outcomes[1].contains("no such picture") && outcomes[2].contains("on purpose"),
            "{outcomes:?}"
        );
        assert!(Loader::new(Samples::new(1, |i| Ok(i as i32)), 0).is_err());
        let ragged = Loader::new(Samples::new(2, |i| Ok(vec![0f32; i])), 2).unwrap();
        assert!(ragged.epoch(0).next().unwrap().unwrap_err().to_string().contains("of 0 and of 1 elements"));
    }

    #[test]
    fn threads_stay_a_few_batches_ahead_and_end_with_the_epoch() {
        let made = Arc::new(AtomicUsize::new(0));
        let counter = made.clone();
        let data = Samples::new(1000, move |i| {
            counter.fetch_add(1, Ordering::SeqCst);
            Ok(i as i32)
        });
        let loader = Loader::new(data, 1).unwrap().workers(2).prefetch(3);
        let mut epoch = loader.epoch(0);
        assert!(epoch.next().is_some());
        drop(epoch); // joins
        // per thread: those in its queue, the one it holds, and the one taken
        let seen = made.load(Ordering::SeqCst);
        assert!(seen <= 2 * (3 + 1) + 1, "{seen}");
        assert_eq!(Arc::strong_count(&loader.data), 1);
    }

    #[test]
    fn tensors_are_made_on_the_device_of_the_caller() {
        Device::scope("INTERP", || {
            let loader = Loader::new(Samples::new(2, |i| Ok((i as f32, vec![i as i32]))), 2).unwrap();
            let (x, rows) = loader.epoch(0).next().unwrap().unwrap();
            assert_eq!((&*x.device().unwrap(), rows.shape().to_string()), ("INTERP", "[2, 1]".to_string()));
        })
        .unwrap();
    }
}
