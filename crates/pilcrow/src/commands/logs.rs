//! `pilcrow logs`: shows the newest lines of the log.

use host::Outcome;
use paths::Homes;

use crate::{logging, output};

/// Shows the newest `count` lines, optionally of one server.
pub fn show(count: usize, server: Option<&str>) -> anyhow::Result<Outcome> {
    let homes = Homes::from_env()?;
    let lines = logging::newest(&homes.state, count, server)?;
    for line in &lines {
        output::line(line);
    }
    if lines.is_empty() {
        output::note("the log has no such lines; PILCROW_LOG=debug logs more");
    }
    Ok(Outcome::Done)
}
