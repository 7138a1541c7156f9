//! Locks as in the standard library that a fork of another thread never finds held: see [`crate::fork`].
//!
//! For short sections: whoever holds one of these must not wait for another thread, but for another of these.

use crate::fork::{Section, section};
use std::ops::{Deref, DerefMut};
use std::sync::{LockResult, PoisonError};

/// As [`std::sync::Mutex`].
#[derive(Default, Debug)]
pub struct Mutex<T>(std::sync::Mutex<T>);

/// As [`std::sync::RwLock`].
#[derive(Default, Debug)]
pub struct RwLock<T>(std::sync::RwLock<T>);

/// As [`std::sync::OnceLock`].
#[derive(Default, Debug)]
pub struct OnceLock<T>(std::sync::OnceLock<T>);

/// As [`std::sync::LazyLock`].
pub struct LazyLock<T> {
    value: OnceLock<T>,
    make: fn() -> T,
}

/// Access to what a lock guards.
pub struct Guard<G> {
    // in this order: the lock is released inside the section
    guard: G,
    _section: Section,
}

/// Access to what a [`Mutex`] guards.
pub type MutexGuard<'a, T> = Guard<std::sync::MutexGuard<'a, T>>;

#[inline]
fn guarded<G>(section: Section, guard: LockResult<G>) -> LockResult<Guard<G>> {
    match guard {
        Ok(guard) => Ok(Guard { guard, _section: section }),
        Err(e) => Err(PoisonError::new(Guard { guard: e.into_inner(), _section: section })),
    }
}

impl<T> Mutex<T> {
    /// One that guards `value`.
    pub const fn new(value: T) -> Mutex<T> {
        Mutex(std::sync::Mutex::new(value))
    }
    /// Wait for the value.
    #[inline]
    pub fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        let section = section();
        guarded(section, self.0.lock())
    }
    /// The value of a lock that no one else can have.
    pub fn get_mut(&mut self) -> LockResult<&mut T> {
        self.0.get_mut()
    }
    /// The value, without the lock.
    pub fn into_inner(self) -> LockResult<T> {
        self.0.into_inner()
    }
}

impl<T> RwLock<T> {
    /// One that guards `value`.
    pub const fn new(value: T) -> RwLock<T> {
        RwLock(std::sync::RwLock::new(value))
    }
    /// Wait to read the value.
    #[inline]
    pub fn read(&self) -> LockResult<Guard<std::sync::RwLockReadGuard<'_, T>>> {
        let section = section();
        guarded(section, self.0.read())
    }
    /// Wait to write the value.
    #[inline]
    pub fn write(&self) -> LockResult<Guard<std::sync::RwLockWriteGuard<'_, T>>> {
        let section = section();
        guarded(section, self.0.write())
    }
    /// The value of a lock that no one else can have.
    pub fn get_mut(&mut self) -> LockResult<&mut T> {
        self.0.get_mut()
    }
}

impl<T> OnceLock<T> {
    /// One that has no value yet.
    pub const fn new() -> OnceLock<T> {
        OnceLock(std::sync::OnceLock::new())
    }
    /// The value, if it is there.
    #[inline]
    pub fn get(&self) -> Option<&T> {
        self.0.get()
    }
    /// Set the value; where there is one, this one comes back.
    pub fn set(&self, value: T) -> Result<(), T> {
        let _section = section();
        self.0.set(value)
    }
    /// The value, made if it is not there.
    #[inline]
    pub fn get_or_init(&self, make: impl FnOnce() -> T) -> &T {
        match self.0.get() {
            Some(value) => value,
            None => {
                let _section = section();
                self.0.get_or_init(make)
            }
        }
    }
}

impl<T> From<T> for OnceLock<T> {
    fn from(value: T) -> OnceLock<T> {
        OnceLock(value.into())
    }
}

impl<T> LazyLock<T> {
    /// A value that is made when it is first needed.
    pub const fn new(make: fn() -> T) -> LazyLock<T> {
        LazyLock { value: OnceLock::new(), make }
    }
}

impl<T> Deref for LazyLock<T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        self.value.get_or_init(self.make)
    }
}

impl<G: Deref> Deref for Guard<G> {
    type Target = G::Target;
    #[inline]
    fn deref(&self) -> &G::Target {
        &self.guard
    }
}

impl<G: DerefMut> DerefMut for Guard<G> {
    #[inline]
    fn deref_mut(&mut self) -> &mut G::Target {
        &mut self.guard
    }
}
