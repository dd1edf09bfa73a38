//! A timer on the wall clock, which notices when somebody sets it.
//!
//! A thread sleeps in the operating system until the time has come or the clock was set: it wakes
//! for nothing else. The time may be changed while it sleeps.

use crate::process::Timestamp;
use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};
use tokio::sync::Notify;

/// Why a wait is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Woken {
    /// The clock shows the time, or a later one.
    Time,
    /// The clock was set.
    ClockSet,
}

/// A timer of the operating system, with the thread that waits for it.
pub(super) struct WallTimer(Arc<Shared>);

struct Shared {
    timer: OwnedFd,
    woken: Notify,
    /// The clock was set since the last wait was over. Set before `woken` is.
    was_set: AtomicBool,
    /// The thread ends when it wakes. Set before the timer is, and read after it.
    ends: AtomicBool,
}

impl WallTimer {
    pub(super) fn new() -> io::Result<Self> {
        let timer = timerfd_create(TimerfdClockId::Realtime, TimerfdFlags::CLOEXEC)?;
        let (woken, was_set, ends) = (Notify::new(), AtomicBool::new(false), AtomicBool::new(false));
        let shared = Arc::new(Shared { timer, woken, was_set, ends });
        let sleeper = Arc::clone(&shared);
        std::thread::Builder::new().name("schedules".to_owned()).spawn(move || sleeper.sleep())?;
        Ok(Self(shared))
    }

    /// Waits until the wall clock shows a time, or is set by somebody. It may be over early, but
    /// never late.
    pub(super) async fn until(&self, at: Timestamp) -> io::Result<Woken> {
        // `Notify` keeps a wake-up of the timer before: then this wait is over at once.
        if !self.0.arm(at)? {
            return Ok(Woken::ClockSet);
        }
        self.0.woken.notified().await;
        Ok(if self.0.was_set.swap(false, AcqRel) { Woken::ClockSet } else { Woken::Time })
    }
}

impl Drop for WallTimer {
    fn drop(&mut self) {
        self.0.ends.store(true, Release);
        // If it cannot be armed, the thread sleeps until the process ends.
        let _ = self.0.arm(Timestamp(1));
    }
}

impl Shared {
    /// Sets the time. Returns false if somebody has set the clock meanwhile.
    fn arm(&self, at: Timestamp) -> io::Result<bool> {
        // A timer of zero is none at all.
        let micros = at.0.max(1).cast_signed();
        let at = Timespec { tv_sec: micros / 1_000_000, tv_nsec: (micros % 1_000_000) * 1_000 };
        let never = Timespec { tv_sec: 0, tv_nsec: 0 };
        let flags = TimerfdTimerFlags::ABSTIME | TimerfdTimerFlags::CANCEL_ON_SET;
        match timerfd_settime(&self.timer, flags, &Itimerspec { it_interval: never, it_value: at }) {
            Ok(_) => Ok(true),
            Err(Errno::CANCELED) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn sleep(&self) {
        loop {
            let woken = rustix::io::read(&self.timer, &mut [0; 8]);
            if self.ends.load(Acquire) {
                return;
            }
            match woken {
                Ok(_) => {}
                Err(Errno::INTR | Errno::AGAIN) => continue,
                Err(Errno::CANCELED) => self.was_set.store(true, Release),
                Err(error) => {
                    tracing::error!(%error, "schedules do not fire on time: their timer fails");
                    std::thread::sleep(std::time::Duration::from_secs(1));
                }
            }
            self.woken.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::system_time;
    use std::time::{Duration, Instant};

    #[tokio::test]
    async fn it_wakes_at_its_time_and_not_before() {
        let timer = WallTimer::new().unwrap();
        let begins = Instant::now();
        let at = Timestamp(system_time().0 + 80_000);
        assert_eq!(timer.until(at).await.unwrap(), Woken::Time);
        assert!(system_time() >= at && begins.elapsed() < Duration::from_secs(5));
        // A time that has passed.
        assert_eq!(timer.until(Timestamp(1)).await.unwrap(), Woken::Time);
        // Armed anew before its time, it waits for the new one.
        let far = Timestamp(system_time().0 + 3_600_000_000);
        assert!(tokio::time::timeout(Duration::from_millis(50), timer.until(far)).await.is_err());
        assert_eq!(timer.until(Timestamp(system_time().0 + 1_000)).await.unwrap(), Woken::Time);
    }
}
