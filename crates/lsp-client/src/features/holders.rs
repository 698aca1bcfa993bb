//! The files that hold a name, opened before a question about all of its uses.
//!
//! Some servers look only at the files that their project names and at those that are open: a
//! package's tests may not be among them. And of a file that is not open a server has a text of its
//! own, whose positions may differ from ours (basedpyright 1.40.2 counts a byte order mark).

use std::time::Instant;

use workspace::{AbsPath, Document};

use crate::error::ServerError;
use crate::pool::ServerPool;
use crate::server::{Clock, Opened, Server};

/// At most this many files are opened for one question.
pub(super) const MOST: usize = 400;
/// At most this many files are looked at.
const LOOKED_AT: usize = 20_000;
/// A larger file is not looked at.
const LARGEST: usize = 1 << 20;

/// Left-over files named in a note.
const NAMED: usize = 12;

/// The files that hold a name.
#[derive(Default)]
pub(super) struct Holders {
    /// What was opened for the question.
    pub opened: Option<Opened>,
    /// All that were shown to the server, in order.
    pub paths: Vec<AbsPath>,
    /// More hold it than were opened.
    pub note: Option<String>,
}

impl Holders {
    /// A word about files that hold `name` and are not among those that the server `found`, where it may
    /// have missed some.
    pub fn left(&self, server: &Server, name: &str, found: &[&AbsPath]) -> Option<String> {
        if !server.core.definition.names_holders_left {
            return None;
        }
        let left: Vec<&AbsPath> = self.paths.iter().filter(|path| !found.contains(path)).collect();
        let mut names: Vec<String> =
            left.iter().take(NAMED).map(|path| server.core.workspace.relative(path)).collect();
        if left.len() > NAMED {
            names.push(format!("and {} more, which `grep` names", left.len() - NAMED));
        }
        (!left.is_empty()).then(|| {
            format!(
                "{} did not count these, which hold `{name}` too; look whether they mean the same: {}",
                server.name(),
                names.join(", ")
            )
        })
    }
}

/// What was found to hold a name.
#[derive(Default)]
pub(super) struct Found {
    pub documents: Vec<Document>,
    /// How many more there are.
    pub left: usize,
    /// Not every file was looked at.
    pub is_cut: bool,
}

/// Where holders are looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Where {
    /// In the server's root.
    Root,
    /// There, and then in the rest of the workspace: other packages may use what this one has.
    All,
    /// In the rest alone.
    Rest,
}

impl ServerPool {
    /// Opens the files of the server's languages that hold `name` as a word, where its definition says
    /// that it needs that.
    pub(super) async fn open_holders(
        &self,
        server: &Server,
        name: &str,
        place: Where,
        clock: Clock<'_>,
    ) -> Result<Holders, ServerError> {
        let definition = &server.core.definition;
        if !definition.opens_holders || name.is_empty() {
            return Ok(Holders::default());
        }
        // What came is told before it is opened, else it is closed again for that. The question itself has the
        // word about a look that is given up.
        drop(server.hear_news(clock).await?);
        let definition_waits = definition.waits_for_holders;
        let Found { documents, left, is_cut } = self.holding(server, name, place, clock).await?;
        let opened = server.open_all(&documents, clock).await?;
        if definition_waits {
            server.wait_until_read(&documents, clock).await;
        }
        let more = match (left, is_cut) {
            (0, false) => None,
            (0, true) => Some("not every file was looked at for the name".to_owned()),
            (left, false) => Some(format!("{left} more files hold the name")),
            (left, true) => {
                Some(format!("{left} more files hold the name, and not every file was looked at for it"))
            }
        };
        let note =
            more.map(|it| format!("{it}; those outside the server's own project were not asked about"));
        let paths = documents.into_iter().map(|document| document.path).collect();
        Ok(Holders { opened: Some(opened), paths, note })
    }

    /// The files of the server's languages that hold `name` as a word, as far as they are found in three quarters
    /// of the time.
    pub(super) async fn holding(
        &self,
        server: &Server,
        name: &str,
        place: Where,
        clock: Clock<'_>,
    ) -> Result<Found, ServerError> {
        let until = clock.at(75);
        let (workspace, definition) = (self.workspace.clone(), server.core.definition.clone());
        let (root, name, cancel) = (server.core.root.clone(), name.to_owned(), clock.cancel.clone());
        let look = tokio::task::spawn_blocking(move || {
            let spoken = |path: &AbsPath| definition.language_id(path.as_path()).is_some();
            let mut found = Found::default();
            let inside = (place != Where::Rest).then(|| workspace.files(&root)).into_iter().flatten();
            let all = (place != Where::Root && root != *workspace.root())
                .then(|| workspace.files(workspace.root()));
            let rest = all.into_iter().flatten().filter(|path| !path.starts_with(&root));
            for (count, path) in inside.chain(rest).filter(spoken).enumerate() {
                if count == LOOKED_AT || cancel.is_cancelled() || Instant::now() >= until {
                    found.is_cut = true;
                    break;
                }
                // What cannot be read as text holds no name.
                let Ok(document) = workspace.document(&path) else { continue };
                if document.text.len() > LARGEST || text::occurrences(&document.text, &name).next().is_none()
                {
                    continue;
                }
                if found.documents.len() == MOST {
                    found.left += 1;
                } else {
                    found.documents.push(document);
                }
            }
            found
        });
        // It ends by itself after the next file; one that does not come is not waited for.
        tokio::select! {
            biased;
            () = clock.cancel.cancelled() => Err(ServerError::Cancelled),
            found = look => Ok(found.unwrap_or_else(|_| Found { is_cut: true, ..Found::default() })),
            () = tokio::time::sleep_until(clock.at(90).into()) => {
                Ok(Found { is_cut: true, ..Found::default() })
            }
        }
    }
}
