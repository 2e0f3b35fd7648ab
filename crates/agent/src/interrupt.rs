//! Ctrl-C, SIGTERM and SIGHUP set a flag that loops poll, so that an interrupted command still reaches
//! its end and undoes what it changed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use daemon::Control;
use linux::Root;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::flag;

use crate::exit::Exit;

/// The signal that asked this program to end, or 0.
#[derive(Clone, Debug)]
pub struct Interrupt(Arc<AtomicUsize>);

impl Interrupt {
    /// Listens from now on. A second signal ends the program at once.
    ///
    /// # Errors
    /// The operating system refuses.
    pub fn listen() -> Result<Interrupt, Exit> {
        let signal = Arc::new(AtomicUsize::new(0));
        for number in [SIGINT, SIGTERM, SIGHUP] {
            // `nohup` asks for a program that outlives its terminal.
            if number == SIGHUP && linux::process::ignores(&Root::system(), number) {
                continue;
            }
            let is_second = Arc::new(AtomicBool::new(false));
            flag::register_conditional_default(number, Arc::clone(&is_second)).map_err(refused)?;
            flag::register(number, is_second).map_err(refused)?;
            flag::register_usize(number, Arc::clone(&signal), number as usize).map_err(refused)?;
        }
        Ok(Interrupt(signal))
    }

    /// Whether a signal came.
    pub fn came(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
    }

    /// Whether a signal came that no terminal sends to a whole process group.
    pub fn came_from_elsewhere(&self) -> bool {
        self.came() && self.0.load(Ordering::Relaxed) != SIGINT as usize
    }
}

/// The switches of a daemon: SIGTERM, SIGINT and SIGQUIT end it, and SIGHUP makes it read its settings again.
///
/// # Errors
/// The operating system refuses.
pub fn control() -> Result<Control, Exit> {
    let control = Control::default();
    for number in [SIGTERM, SIGINT, SIGQUIT] {
        flag::register(number, Arc::clone(&control.is_over)).map_err(refused)?;
    }
    flag::register(SIGHUP, Arc::clone(&control.is_reload)).map_err(refused)?;
    Ok(control)
}

/// The error if the operating system refuses to install a signal handler.
pub fn refused(error: std::io::Error) -> Exit {
    Exit::Refused(format!("cannot listen for signals: {error}"))
}
