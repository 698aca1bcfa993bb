//! A handle on a server of the pool, for several requests to one server.

use std::collections::HashSet;

use paths::{AbsPath, path_to_uri};
use serde_json::json;
use workspace::{Document, WorkspaceEdit};

use super::at;
use super::candidate_files::{Candidates, Kinds, OpenCandidates};
use super::hierarchy::{self, Call, Calls};
use super::navigation::{Navigate, locations, require_references, uses};
use super::symbols::outline;
use crate::answer::{Answer, Location, Symbol};
use crate::error::{Refusal, Result, ServerError};
use crate::files::file_filter::follows;
use crate::note::Note;
use crate::pool::{InUse, RequestCx, ServerPool};
use crate::server::protocol::RawWorkspaceEdit;
use crate::server::{Clock, Server};
use adapters::{Feature, ServerDefinition};

/// A running server, which the pool does not stop for idleness or room.
pub struct ServerHandle(pub(super) InUse);

impl ServerPool {
    /// The best server for `feature` of a file, started.
    ///
    /// # Errors
    /// [`ServerError`].
    pub async fn server_for(
        self: &std::sync::Arc<Self>,
        path: &AbsPath,
        feature: Feature,
        cx: &RequestCx,
    ) -> Result<ServerHandle> {
        Ok(ServerHandle(self.pick(path, feature, cx.clock()).await?))
    }

    /// The servers that can update references to a path when it moves.
    ///
    /// Also returns the reasons why others are not asked. `file` selects the servers: `path`
    /// itself, or a file of the directory `path`. Omits a server that is neither installed nor
    /// verified.
    ///
    /// # Errors
    ///
    /// [`ServerError`].
    pub async fn servers_for_move(
        self: &std::sync::Arc<Self>,
        path: &AbsPath,
        file: &AbsPath,
        cx: &RequestCx,
    ) -> Result<(Vec<ServerHandle>, Vec<Note>)> {
        match self.pick_all(file, Feature::RenameFile, cx.clock()).await {
            Ok((mut servers, problems)) => {
                servers.retain(|server| follows(server, path, file != path));
                let notes = problems.into_iter().map(Note::Failed).collect();
                Ok((servers.into_iter().map(ServerHandle).collect(), notes))
            }
            Err(ServerError::NoServer { .. } | ServerError::Unsupported { .. }) => Ok(Default::default()),
            Err(ServerError::Missing { server, .. }) if !self.is_verified(&server) => Ok(Default::default()),
            Err(error) => Err(error),
        }
    }

    /// Whether any definition handles `feature` of a file.
    pub fn has_definition(&self, path: &AbsPath, feature: Feature) -> bool {
        !self.definitions().for_feature(path.as_path(), feature).is_empty()
    }

    /// Extensions of files of the same module (`py` and `pyi`), from all definitions.
    pub fn stub_extensions(&self, path: &AbsPath) -> Vec<String> {
        let mut found: Vec<String> = Vec::new();
        for definition in self.definitions().for_path(path.as_path()) {
            found.extend(other_extensions(&definition, path));
        }
        let mut seen = HashSet::new();
        found.retain(|extension| seen.insert(extension.clone()));
        found
    }

    /// Whether a definition says that `server` answers `feature` for a file.
    pub fn answers(&self, server: &ServerHandle, path: &AbsPath, feature: Feature) -> bool {
        self.applying(path, feature).iter().any(|definition| definition.name == server.name())
            && server.offers(feature)
    }
}

fn other_extensions(definition: &ServerDefinition, path: &AbsPath) -> Vec<String> {
    let Some(own) = path.as_path().extension().and_then(|extension| extension.to_str()) else {
        return Vec::new();
    };
    let groups =
        definition.stub_extensions.iter().filter(|group| group.iter().any(|extension| extension == own));
    groups.flatten().filter(|extension| *extension != own).cloned().collect()
}

impl ServerHandle {
    pub(super) fn server(&self) -> &Server {
        &self.0
    }

    pub fn name(&self) -> &str {
        self.0.name()
    }

    pub fn definition(&self) -> &ServerDefinition {
        &self.0.core.definition
    }

    /// Whether the server's capabilities offer a feature.
    pub fn offers(&self, feature: Feature) -> bool {
        self.0.core.capabilities().offers(feature)
    }

    /// Reason why its answers may be incomplete now.
    pub fn note(&self) -> Option<Note> {
        self.0.note()
    }

    /// The extensions of files that belong to the same module as a file.
    pub fn stub_extensions(&self, path: &AbsPath) -> Vec<String> {
        other_extensions(self.definition(), path)
    }

    /// Waits until the project is loaded, with `doc` open.
    ///
    /// Returns whether it is loaded.
    ///
    /// # Errors
    ///
    /// [`ServerError`].
    pub async fn wait_ready(&self, doc: Option<&Document>, clock: Clock<'_>) -> Result<bool> {
        self.0.wait_ready(doc, clock).await
    }

    /// Requires that the project is loaded: half a rename is worse than none.
    ///
    /// # Errors
    ///
    /// [`ServerError`]: `Starting` when the project is not loaded in time, `Refused` when it cannot
    /// be loaded.
    pub async fn require_loaded(&self, doc: Option<&Document>, clock: Clock<'_>) -> Result<()> {
        let server = self.server();
        if !server.wait_ready(doc, clock).await? {
            return Err(server.loading());
        }
        match server.core.loading.failure() {
            Some(why) => Err(server.refused(Refusal::ProjectNotLoaded(why))),
            None => Ok(()),
        }
    }

    /// Opens the candidates for `name` if the server's definition requires it.
    ///
    /// # Errors
    /// [`ServerError`].
    pub async fn open_candidates(
        &self,
        pool: &ServerPool,
        name: &str,
        clock: Clock<'_>,
    ) -> Result<OpenCandidates> {
        pool.open_candidates(self.server(), name, clock).await
    }

    /// Opens the candidates that are not among the uses of a symbol.
    ///
    /// The symbol is at byte `offset`. Returns the uses too; if the request for them fails, all candidates are
    /// open. Without effect if the server's definition requires no open candidates.
    ///
    /// # Errors
    /// [`ServerError`].
    pub async fn open_candidates_by_uses(
        &self,
        pool: &ServerPool,
        doc: &Document,
        offset: usize,
        clock: Clock<'_>,
    ) -> Result<(OpenCandidates, Result<Vec<Location>>)> {
        let server = self.server();
        let name = &doc.text[text::word_at(&doc.text, offset)];
        let mut candidates = OpenCandidates::default();
        if !server.core.definition.open_candidates || name.is_empty() {
            return Ok((candidates, Ok(Vec::new())));
        }
        let uses = async {
            require_references(server)?;
            let asked = pool.ask_for_all_uses(server, (doc, offset), false, &mut candidates, clock.part(50));
            locations(server, &asked.await?)
        };
        let uses = uses.await;
        if uses.is_err() {
            candidates.close(server).await;
            candidates = pool.open_candidates(server, name, clock).await?;
        }
        Ok((candidates, uses))
    }

    /// Finds the files of the server's languages that contain `name` as a word.
    ///
    /// # Errors
    /// [`ServerError::Cancelled`] only.
    pub async fn find_candidates(
        &self,
        pool: &ServerPool,
        name: &str,
        clock: Clock<'_>,
    ) -> Result<Candidates> {
        pool.find_candidates(self.server(), name, Kinds::Own, clock).await
    }

    /// Closes the candidates that [`Self::open_candidates`] opened.
    pub async fn close(&self, mut candidates: OpenCandidates) {
        candidates.close(self.server()).await;
    }

    /// The symbols of a file.
    ///
    /// # Errors
    /// [`ServerError`].
    pub async fn symbols(&self, doc: &Document, clock: Clock<'_>) -> Result<Vec<Symbol>> {
        outline(self.server(), doc, clock).await
    }

    /// Targets of `to` from byte `offset`, in the server's order.
    ///
    /// # Errors
    /// [`ServerError`].
    pub async fn navigate(
        &self,
        to: Navigate,
        doc: &Document,
        offset: usize,
        clock: Clock<'_>,
    ) -> Result<Vec<Location>> {
        let ask = self.0.ask(Some(doc), to.method(), clock, |synced, encoding| at(synced, offset, encoding));
        locations(self.server(), &ask.await?)
    }

    /// The references of the symbol at byte `offset`, without its declarations.
    ///
    /// # Errors
    /// [`ServerError`].
    pub async fn uses(&self, doc: &Document, offset: usize, clock: Clock<'_>) -> Result<Vec<Location>> {
        uses(self.server(), doc, offset, clock).await
    }

    /// The functions that call the one at byte `offset`.
    ///
    /// # Errors
    /// [`ServerError`]; `Refused` as `not_found` when the server sees no function there.
    pub async fn callers(
        &self,
        doc: &Document,
        offset: usize,
        clock: Clock<'_>,
    ) -> Result<Answer<Vec<Call>>> {
        hierarchy::calls(self.server(), Calls::Incoming, doc, offset, clock).await
    }

    /// The edit that the server makes for a move, without the move itself.
    ///
    /// # Errors
    /// [`ServerError`].
    pub async fn will_rename(
        &self,
        doc: Option<&Document>,
        (from, to): (&AbsPath, &AbsPath),
        label: &str,
        clock: Clock<'_>,
    ) -> Result<WorkspaceEdit> {
        let uri = |path: &AbsPath| path_to_uri(path.as_path());
        let params = json!({"files": [{"oldUri": uri(from), "newUri": uri(to)}]});
        let asked = self.0.ask(doc, "workspace/willRenameFiles", clock, |_, _| params.clone()).await?;
        let raw: Option<RawWorkspaceEdit> = self.0.read(&asked.method, &asked.raw)?;
        asked.workspace_edit(self.server(), raw.unwrap_or_default(), label.to_owned())
    }
}
