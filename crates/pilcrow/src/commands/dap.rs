//! `pilcrow dap`: joins a debug session of another Pilcrow process, or lists them.

use host::{Outcome, debug_sessions};
use tokio::io::AsyncWriteExt;
use wire::local::Stream;

use super::wrong_use;
use crate::{cli, open, output};

/// Lists the project's sessions, or connects standard input and output to
/// `session`.
pub async fn run(session: Option<&str>, target: &cli::CommandTarget) -> anyhow::Result<Outcome> {
    let homes = paths::Homes::from_env()?;
    let (root, _) = workspace::Workspace::identify(&open::root(target.project.dir.as_deref())?)?;
    let found = debug_sessions::find(&homes, &root).await?;
    let Some(name) = session else {
        for session in found.iter().filter(|session| !session.is_alias()) {
            if target.json {
                output::json(&session.about());
            } else {
                output::line(&session.describe());
            }
        }
        if found.is_empty() && !target.json {
            output::line("no debug session runs in this project");
        }
        return Ok(Outcome::Done);
    };
    let announced = match debug_sessions::choose(&found, name) {
        Ok(found) => found,
        Err(why) => return Ok(wrong_use(&why)),
    };
    let (mut from, mut to) = Stream::connect(announced.path.as_path()).await?.split();
    let (mut stdin, mut stdout) = (tokio::io::stdin(), tokio::io::stdout());
    let inward = async {
        tokio::io::copy(&mut stdin, &mut to).await?;
        to.shutdown().await
    };
    let outward = async { tokio::io::copy(&mut from, &mut stdout).await.map(drop) };
    tokio::pin!(inward, outward);
    tokio::select! {
        // The editor left; the rest of the session's output is still written.
        done = &mut inward => {
            done?;
            outward.await?;
        }
        // The session disconnected or ended.
        done = &mut outward => done?,
    }
    Ok(Outcome::Done)
}
