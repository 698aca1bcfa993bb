//! Candidate files: files with a name, opened for a request for its uses.
//!
//! All are open before a rename, so that its edit refers to their exact text. For references and callers,
//! those are opened that the first answer lacks.
//!
//! Some servers search only the files of their project and those that are open. The tests of a
//! package may be neither. A server also reads a file that is not open itself, with positions that
//! may differ from Pilcrow's (basedpyright 1.40.2 counts a byte order mark).

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::{Duration, Instant};

use adapters::{Prefer, find_package};
use paths::AbsPath;
use workspace::{Budget, Document};

use crate::answer::Location;
use crate::error::{Result, ServerError};
use crate::note::Note;
use crate::pool::ServerPool;
use crate::server::{Clock, Opened, Server};

/// Maximum number of files opened for one request.
pub(super) const MAX_OPENED: usize = 400;
/// Time for the scan of files of other languages.
const OTHERS_TIME: Duration = Duration::from_secs(5);

/// The files that contain a name as a word.
#[derive(Debug, Default)]
pub struct Candidates {
    /// Files of the server's languages, those in its root first; at most 400.
    pub documents: Vec<Document>,
    /// Files of its languages beyond the limit, which stay closed.
    pub omitted: Vec<AbsPath>,
    /// Whether the scan ended before every file of its languages was read.
    pub is_cut: bool,
    /// Files of other languages, if they were requested.
    pub others: Vec<AbsPath>,
    /// Whether the scan ended before every file of another language was read.
    pub others_cut: bool,
    /// The package of each directory with one of `documents`.
    packages: HashMap<AbsPath, AbsPath>,
}

/// The files that a scan reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kinds {
    /// Files of the server's languages.
    Own,
    All,
}

/// Candidates that are open in a server until they are closed.
#[derive(Default)]
pub struct OpenCandidates {
    opened: Vec<Opened>,
    found: Option<Candidates>,
}

impl OpenCandidates {
    /// The candidates, where the server needs them open.
    pub fn found(&self) -> Option<&Candidates> {
        self.found.as_ref()
    }

    /// Returns a note about candidates that Pilcrow did not open in the server.
    pub fn note(&self) -> Option<Note> {
        self.found()?.note()
    }

    /// Opens the candidates that an answer lacks, and returns whether there are any.
    ///
    /// The server has searched the others: those in the answer, and those that were open. Positions in a file
    /// with a byte order mark are known to be Pilcrow's only if it was open.
    pub(super) async fn open_missing(
        &mut self,
        pool: &ServerPool,
        server: &Server,
        answer: &[Location],
        clock: Clock<'_>,
    ) -> Result<bool> {
        let Some(found) = &self.found else { return Ok(false) };
        let answered: HashSet<&AbsPath> = answer.iter().map(|place| &place.path).collect();
        let missing: Vec<Document> = {
            let open = server.core.documents();
            let is_searched = |it: &Document| open.holds(&it.path) || !it.bom && answered.contains(&it.path);
            found.documents.iter().filter(|document| !is_searched(document)).cloned().collect()
        };
        let opened = pool.open_found(server, found, &missing, clock).await?;
        self.opened.extend(opened);
        Ok(!missing.is_empty())
    }

    pub(super) async fn close(&mut self, server: &Server) {
        for opened in self.opened.drain(..) {
            server.close_all(opened).await;
        }
    }
}

impl Candidates {
    /// The files of the server's languages that were read, in order.
    pub fn paths(&self) -> impl Iterator<Item = &AbsPath> {
        self.documents.iter().map(|document| &document.path)
    }

    /// The read files of each package, in order.
    pub(super) fn by_package(&self) -> BTreeMap<&AbsPath, Vec<&AbsPath>> {
        let mut packages: BTreeMap<&AbsPath, Vec<&AbsPath>> = BTreeMap::new();
        for path in self.paths() {
            if let Some(package) = path.parent().and_then(|directory| self.packages.get(&directory)) {
                packages.entry(package).or_default().push(path);
            }
        }
        packages
    }

    /// Returns a note about candidates that Pilcrow did not open in the server.
    pub(super) fn note(&self) -> Option<Note> {
        let (omitted, is_cut) = (self.omitted.len(), self.is_cut);
        (omitted > 0 || is_cut).then_some(Note::CandidatesOmitted { omitted, is_cut })
    }

    /// The candidates that an answer lacks, where the server may miss some.
    pub(super) fn missed(&self, server: &Server, name: &str, answered: &[&AbsPath]) -> Option<Note> {
        if !server.core.definition.report_missed_candidates {
            return None;
        }
        let files: Vec<AbsPath> = self.paths().filter(|path| !answered.contains(path)).cloned().collect();
        let (server, name) = (server.name().to_owned(), name.to_owned());
        (!files.is_empty()).then_some(Note::CandidatesMissed { server, name, files })
    }
}

impl ServerPool {
    /// Opens the candidates for `name` if the server's definition requires it.
    pub(super) async fn open_candidates(
        &self,
        server: &Server,
        name: &str,
        clock: Clock<'_>,
    ) -> Result<OpenCandidates> {
        let mut candidates = self.find_openable(server, name, clock).await?;
        if let Some(found) = &candidates.found {
            candidates.opened.extend(self.open_found(server, found, &found.documents, clock).await?);
        }
        Ok(candidates)
    }

    /// Finds the candidates for `name` without opening them.
    ///
    /// Finds none if the server's definition requires no open candidates.
    pub(super) async fn find_openable(
        &self,
        server: &Server,
        name: &str,
        clock: Clock<'_>,
    ) -> Result<OpenCandidates> {
        if !server.core.definition.open_candidates || name.is_empty() {
            return Ok(OpenCandidates::default());
        }
        let found = self.find_candidates(server, name, Kinds::Own, clock).await?;
        Ok(OpenCandidates { opened: Vec::new(), found: Some(found) })
    }

    /// Opens `documents`, some of the candidates that were found.
    ///
    /// Does so only if the server's definition requires it.
    pub(super) async fn open_found(
        &self,
        server: &Server,
        found: &Candidates,
        documents: &[Document],
        clock: Clock<'_>,
    ) -> Result<Option<Opened>> {
        if !server.core.definition.open_candidates {
            return Ok(None);
        }
        // Changes on disk are reported before a file is opened; otherwise the report would close
        // it. The request itself notes a scan that was cut.
        drop(server.report_external_changes(clock).await?);
        let opened = server.open_all(documents, clock).await?;
        if server.core.definition.root.prefer == Prefer::Outermost {
            // Without an open file, the server unloads a package, and loads it again for the next request.
            // The one in the middle is most likely among the files of the package's settings.
            let mut open = server.core.documents();
            let mut packages = found.by_package();
            packages.values_mut().for_each(|paths| paths.retain(|path| open.holds(path)));
            packages.retain(|_, paths| !paths.is_empty());
            open.keep(packages.into_iter().map(|(package, paths)| (package, paths[paths.len() / 2])));
        }
        if server.core.definition.await_candidates {
            server.wait_until_read(documents, clock).await;
        }
        Ok(Some(opened))
    }

    /// Finds files with `name` as a word, within three quarters of the time.
    pub(super) async fn find_candidates(
        &self,
        server: &Server,
        name: &str,
        kinds: Kinds,
        clock: Clock<'_>,
    ) -> Result<Candidates> {
        if name.is_empty() {
            return Ok(Candidates::default());
        }
        let until = clock.at(75);
        let others_until = until.min(Instant::now() + OTHERS_TIME);
        let (workspace, definition) = (self.workspace.clone(), server.core.definition.clone());
        let (root, name, cancel) = (server.core.root.clone(), name.to_owned(), clock.cancel.clone());
        let scan = tokio::task::spawn_blocking(move || {
            let top = workspace.root();
            let files = || {
                let mut inside = workspace.files(top).filter(|path| path.starts_with(&root)).peekable();
                // The list of the workspace omits a root in an ignored directory.
                let unlisted = inside.peek().is_none().then(|| workspace.files(&root));
                let rest = (root != *top).then(|| workspace.files(top));
                let rest = rest.into_iter().flatten().filter(|path| !path.starts_with(&root));
                inside.chain(unlisted.into_iter().flatten()).chain(rest)
            };
            let is_own = |path: &AbsPath| definition.language_id(path.as_path()).is_some();
            let mut found = Candidates::default();
            let mut own = workspace.candidates(files().filter(is_own), Budget::new(until, cancel.clone()));
            while let Some(document) = own.next_with_word(&name) {
                match found.documents.len() == MAX_OPENED {
                    true => found.omitted.push(document.path),
                    false => found.documents.push(document),
                }
            }
            found.is_cut = !own.is_complete();
            for document in &found.documents {
                if let Some(directory) = document.path.parent() {
                    let package = || find_package(&definition.root, &document.path, top);
                    found.packages.entry(directory).or_insert_with(package);
                }
            }
            if kinds == Kinds::All {
                let others = files().filter(|path| !is_own(path));
                let mut others = workspace.candidates(others, Budget::new(others_until, cancel));
                while let Some(document) = others.next_with_word(&name) {
                    found.others.push(document.path);
                }
                found.others_cut = !others.is_complete();
            }
            found
        });
        let cut = || Candidates { is_cut: true, ..Candidates::default() };
        // The scan ends by itself after the next file; a read that hangs is abandoned.
        tokio::select! {
            biased;
            () = clock.cancel.cancelled() => Err(ServerError::Cancelled),
            found = scan => Ok(found.unwrap_or_else(|_| cut())),
            () = tokio::time::sleep_until(clock.at(90).into()) => Ok(cut()),
        }
    }
}
