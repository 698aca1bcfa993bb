//! `pilcrow dap`: joins a debug session that another process of the person's holds, or lists them.

use host::{Outcome, debug_sessions};
use tokio::io::AsyncWriteExt;
use wire::local::Stream;

use super::wrong_use;
use crate::{cli, open, output};

/// Lists the project's sessions, or carries bytes between standard streams and the one named `session`.
pub async fn run(session: Option<&str>, project: &cli::Project, as_json: bool) -> anyhow::Result<Outcome> {
    let homes = paths::Homes::from_env()?;
    let (root, _) = workspace::Workspace::identify(&open::root(project.dir.as_deref())?)?;
    let found = debug_sessions::find(&homes, &root).await?;
    let Some(wanted) = session else {
        for it in found.iter().filter(|it| !it.leads_on()) {
            if as_json {
                output::json(&it.about());
            } else {
                output::line(&it.shown());
            }
        }
        if found.is_empty() && !as_json {
            output::line("no debug session runs in this project");
        }
        return Ok(Outcome::Done);
    };
    let announced = match debug_sessions::choose(&found, wanted) {
        Ok(found) => found,
        Err(why) => return Ok(wrong_use(&why)),
    };
    let (mut from, mut to) = Stream::connect(announced.path.as_path()).await?.split();
    let (mut stdin, mut stdout) = (tokio::io::stdin(), tokio::io::stdout());
    let inward = async {
        tokio::io::copy(&mut stdin, &mut to).await?;
        to.shutdown().await
    };
    let outward = async {
        let mut buffer = vec![0; 64 * 1024];
        loop {
            match tokio::io::AsyncReadExt::read(&mut from, &mut buffer).await? {
                0 => return Ok::<(), std::io::Error>(()),
                count => {
                    stdout.write_all(&buffer[..count]).await?;
                    stdout.flush().await?;
                }
            }
        }
    };
    tokio::pin!(inward, outward);
    tokio::select! {
        // The editor left: what the session still says to it is written out.
        left = &mut inward => {
            left?;
            outward.await?;
        }
        // The session sent us away, or is over.
        over = &mut outward => over?,
    }
    Ok(Outcome::Done)
}
