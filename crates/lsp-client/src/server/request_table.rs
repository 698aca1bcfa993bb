//! Requests that Pilcrow sends, each declared next to the code that sends it.

use adapters::Feature;
use serde_json::{Value, json};

/// A request method and its properties.
///
/// Used to choose a server, send the request and announce the client's capabilities.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Request {
    pub method: &'static str,
    /// The feature that ranks servers for it; follow-up requests have none.
    pub feature: Option<Feature>,
    /// Key of the server capability that offers it.
    pub provider: Option<&'static str>,
    /// Key of the client capability below `textDocument`.
    ///
    /// Announced without dynamic registration.
    client: Option<&'static str>,
    /// Whether it is about one position or file, and gets a third of the call's time.
    is_quick: bool,
    /// Whether it is sent again when the text changed or the server cancelled it.
    is_repeated: bool,
}

impl Request {
    /// Creates a request that is repeated after a cancellation by the server.
    pub const fn new(method: &'static str) -> Self {
        let (feature, provider, client) = (None, None, None);
        Self { method, feature, provider, client, is_quick: false, is_repeated: true }
    }

    /// Ranks its servers by a feature, and requires a capability of them.
    pub const fn of(self, feature: Feature, provider: &'static str) -> Self {
        Self { feature: Some(feature), provider: Some(provider), ..self }
    }

    /// Announces a client capability without options.
    pub const fn announced(self, client: &'static str) -> Self {
        Self { client: Some(client), ..self }
    }

    pub const fn quick(self) -> Self {
        Self { is_quick: true, ..self }
    }
}

/// All requests of a pool, a slice for each file of features.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RequestTable(pub &'static [&'static [Request]]);

impl RequestTable {
    fn all(self) -> impl Iterator<Item = &'static Request> {
        self.0.iter().copied().flatten()
    }

    /// The request for a feature; `None` for diagnostics, which servers may push.
    pub(crate) fn of_feature(self, feature: Feature) -> Option<&'static Request> {
        self.all().find(|request| request.feature == Some(feature))
    }

    /// The feature that a method requests of one server.
    ///
    /// `None` if all servers of a file may answer.
    pub(crate) fn feature_of(self, method: &str) -> Option<Feature> {
        let mut features =
            self.all().filter(|request| request.method == method).filter_map(|request| request.feature);
        let feature = features.next().filter(|feature| *feature != Feature::RenameFile)?;
        features.next().is_none().then_some(feature)
    }

    /// Whether a method is about one place or file.
    pub(crate) fn is_quick(self, method: &str) -> bool {
        self.all().any(|request| request.method == method && request.is_quick)
    }

    /// The methods that are sent again. Others may have had an effect already.
    pub(crate) fn repeated(self) -> impl Iterator<Item = &'static str> {
        self.all().filter(|request| request.is_repeated).map(|request| request.method)
    }

    /// Our capabilities below `textDocument` that have no options.
    pub(crate) fn announced(self) -> impl Iterator<Item = (&'static str, Value)> {
        self.all().filter_map(|request| Some((request.client?, json!({"dynamicRegistration": false}))))
    }
}
