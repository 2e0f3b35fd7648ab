//! Ctrl-C, SIGTERM and the end of the terminal as a question that loops ask, so that every way out goes through the end of a
//! command, where what it changed is undone.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use linux::Root;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// Which signal, if any, asked this program to end.
#[derive(Clone, Debug)]
pub struct Interrupt(Arc<AtomicUsize>);

impl Interrupt {
    /// Listens from now on. A second signal ends the program at once.
    ///
    /// # Errors
    /// What the operating system refuses.
    pub fn listen() -> std::io::Result<Interrupt> {
        let signal = Arc::new(AtomicUsize::new(0));
        for number in [SIGINT, SIGTERM, SIGHUP] {
            // `nohup` asks for a program that outlives its terminal.
            if number == SIGHUP && linux::process::ignores(&Root::system(), number) {
                continue;
            }
            let is_second = Arc::new(std::sync::atomic::AtomicBool::new(false));
            signal_hook::flag::register_conditional_default(number, Arc::clone(&is_second))?;
            signal_hook::flag::register(number, is_second)?;
            signal_hook::flag::register_usize(number, Arc::clone(&signal), number as usize)?;
        }
        Ok(Interrupt(signal))
    }

    /// Whether a signal came.
    pub fn came(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
    }

    /// Whether one came that no terminal sends to a whole process group.
    pub fn came_from_elsewhere(&self) -> bool {
        self.came() && self.0.load(Ordering::Relaxed) != SIGINT as usize
    }
}
