//! The sockets on which the killer reports its counters: JSON on one, OpenMetrics on the other.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use daemon::sockets::{self, Answering, Listener};

use crate::{Error, Statistics};

/// What the answers of a running killd contain.
const MARKS: [&str; 2] = ["pagewise.killd/", "pagewise_killd_"];

/// The paths of the sockets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Paths {
    /// The socket that answers with JSON.
    pub statistics: Option<PathBuf>,
    /// The socket that answers with OpenMetrics.
    pub metrics: Option<PathBuf>,
}

/// The sockets of these paths, and what they answer.
pub(crate) fn answering(paths: &Paths, statistics: &Arc<Statistics>) -> Vec<Answering> {
    let (all, metrics) = (Arc::clone(statistics), Arc::clone(statistics));
    let json = paths
        .statistics
        .as_ref()
        .map(|path| Answering::json(path, Arc::new(move |text: &mut String| all.json(text))));
    let open_metrics = paths.metrics.as_ref().map(|path| {
        Answering::open_metrics(path, Arc::new(move |text: &mut String| metrics.open_metrics(text)))
    });
    json.into_iter().chain(open_metrics).collect()
}

/// Whether a running killd answers at `path`.
///
/// # Errors
/// The path is not a socket, or another program listens.
pub(crate) fn is_killd_at(path: &Path) -> Result<bool, Error> {
    Ok(sockets::listener_at(path, &MARKS)? == Listener::Own)
}
