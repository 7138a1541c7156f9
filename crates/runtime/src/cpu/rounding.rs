//! Kernels compute as IEEE says whatever mode the caller's thread is in: rounding to nearest, subnormals kept, nothing
//! trapped. Programs that set flush-to-zero for themselves keep it around a launch.

/// Rounding to nearest, every exception masked, subnormals neither flushed nor read as zero.
#[cfg(target_arch = "x86_64")]
const IEEE: u32 = 0x1f80;
/// The bits that choose a mode; the others only record what has happened.
#[cfg(target_arch = "x86_64")]
const MODE: u32 = 0xffc0;

/// `f` in the default floating-point mode; the thread's own is back afterwards, also after a panic.
#[cfg(target_arch = "x86_64")]
pub fn in_default_mode<T>(f: impl FnOnce() -> T) -> T {
    struct Restore(u32);
    impl Drop for Restore {
        fn drop(&mut self) {
            write(self.0);
        }
    }
    let before = read();
    let _restore = (before & MODE != IEEE).then(|| {
        write(IEEE);
        Restore(before)
    });
    f()
}

/// `f`; the mode of this machine is left alone.
#[cfg(not(target_arch = "x86_64"))]
pub fn in_default_mode<T>(f: impl FnOnce() -> T) -> T {
    f()
}

#[cfg(target_arch = "x86_64")]
fn read() -> u32 {
    let mut word = 0u32;
    // SAFETY: stores the control word in `word` and nothing else.
    unsafe { std::arch::asm!("stmxcsr [{}]", in(reg) &mut word, options(nostack, preserves_flags)) };
    word
}

/// `word` is one that was read, or the default: no reserved bit is set.
#[cfg(target_arch = "x86_64")]
fn write(word: u32) {
    // SAFETY: loads the control word. The modes differ only inside [`in_default_mode`], around a call that the compiler
    // moves no arithmetic across, since this is opaque to it and may touch memory.
    unsafe { std::arch::asm!("ldmxcsr [{}]", in(reg) &word, options(nostack, preserves_flags)) };
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    #[test]
    fn flush_to_zero_is_off_inside_and_back_outside() {
        let own = read();
        // flush-to-zero, subnormals as zero, rounding up
        let odd = IEEE | 1 << 15 | 1 << 6 | 2 << 13;
        write(odd);
        let inside = in_default_mode(|| read() & MODE);
        let after = read() & MODE;
        write(own);
        assert_eq!((inside, after), (IEEE, odd & MODE));
        assert_eq!(in_default_mode(|| read() & MODE), IEEE);
    }
}
