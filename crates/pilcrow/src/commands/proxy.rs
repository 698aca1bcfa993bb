//! `pilcrow proxy`: serves model requests for clients without API keys.
//!
//! `docs/protocols/proxy.md` specifies it. The proxy checks only the token, and forwards requests unchanged
//! with the settings and keys of this process.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use agent::events::StreamRedactor;
use futures_util::stream;
use host::Outcome;
use host::models::ModelSelector;
use host::project::{Access, Project};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full, Limited, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::header::{AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use llm::protocol::pilcrow_proxy::{ProxyEncoder, read_request};
use llm::{ApiKey, MessageStream, Model, StreamEvent};
use parking_lot::Mutex;
use policy::Redactor;
use process::deadlines;
use serde_json::json;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::wrong_use;
use crate::{cli, open, output, stop};

/// Name of the environment variable with the token.
const TOKEN: &str = "PILCROW_PROXY_TOKEN";
/// Minimum length of the token.
const MIN_TOKEN: usize = 16;
/// Maximum size of a request in bytes, images included.
const MAX_BODY: usize = 256 * 1024 * 1024;
/// Interval of pings in an idle stream.
const PING: Duration = Duration::from_secs(15);
/// Time limit for the headers of a request.
const HEADERS: Duration = Duration::from_secs(10);
/// Time limit for the body of a request.
const BODY: Duration = Duration::from_secs(120);
/// Maximum number of cached models, and maximum length of a name of one.
const MAX_CACHED: usize = 256;
const MAX_CACHED_NAME: usize = 512;

type Body = BoxBody<Bytes, Infallible>;

struct Proxy {
    project: Arc<Project>,
    token: ApiKey,
    cancel: CancellationToken,
    /// Cached models, the least recently used first.
    models: Mutex<VecDeque<CachedModel>>,
}

/// The model of a session.
///
/// The next request uses the same key, for which the provider's cache is valid, and the same connection.
struct CachedModel {
    name: String,
    session_id: String,
    model: Arc<dyn Model>,
}

impl Proxy {
    /// Returns the model for a request of this session.
    ///
    /// Requests without a session share one, which uses the next key for each.
    fn model(&self, name: &str, session_id: &str) -> anyhow::Result<Arc<dyn Model>> {
        {
            let mut models = self.models.lock();
            let is_same = |cached: &CachedModel| cached.name == name && cached.session_id == session_id;
            if let Some(cached) = models.iter().position(is_same).and_then(|at| models.remove(at)) {
                let model = Arc::clone(&cached.model);
                models.push_back(cached);
                return Ok(model);
            }
        }
        let project = &self.project;
        let directory = project.workspace.root().as_path();
        let selector = ModelSelector { project, config: &project.config, directory, found: None, files: &[] };
        let model = selector.choose(Some(name))?.model;
        if is_cached(name, session_id) {
            let mut models = self.models.lock();
            while models.len() >= MAX_CACHED {
                models.pop_front();
            }
            models.push_back(CachedModel {
                name: name.to_owned(),
                session_id: session_id.to_owned(),
                model: Arc::clone(&model),
            });
        }
        Ok(model)
    }
}

/// Serves requests until the command is stopped.
pub async fn serve(listen: SocketAddr, project: &cli::Project) -> anyhow::Result<Outcome> {
    let token = std::env::var(TOKEN).unwrap_or_default();
    let Some(key) = ApiKey::new(&token) else {
        return Ok(wrong_use(&format!("set {TOKEN} to the token that clients must send")));
    };
    let length = token.trim().chars().count();
    if length < MIN_TOKEN {
        return Ok(wrong_use(&format!(
            "{TOKEN} has {length} characters, which can be guessed; set at least {MIN_TOKEN} random ones, \
             such as those of `openssl rand -hex 16`"
        )));
    }
    let cancel = stop::on_signal()?;
    let project = Arc::new(open::open(project, Access { yes: false, keep: false, trusted: false })?);
    if project.config.values.proxy.url.is_some() {
        return Ok(wrong_use("proxy.url is set, but the proxy cannot use another proxy; unset it"));
    }
    let listener = TcpListener::bind(listen).await?;
    let address = listener.local_addr()?;
    output::line(&format!("listening on http://{address}"));
    if !address.ip().is_loopback() {
        output::note(
            "pilcrow: anyone who reaches this address and has the token can use your API keys, unencrypted",
        );
    }
    let proxy =
        Proxy { project: Arc::clone(&project), token: key, cancel: cancel.clone(), models: Mutex::default() };
    let proxy = Arc::new(proxy);
    let connections = TaskTracker::new();
    loop {
        // Cancel safety: connections not accepted here wait in the system's queue.
        let accepted = tokio::select! {
            () = cancel.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let proxy = Arc::clone(&proxy);
        connections.spawn(async move {
            let service = service_fn(|request| respond(Arc::clone(&proxy), request));
            let mut http = hyper::server::conn::http1::Builder::new();
            // hyper needs a timer for its timeouts.
            http.timer(TokioTimer::new()).header_read_timeout(HEADERS);
            let served = http.serve_connection(TokioIo::new(stream), service);
            let served = tokio::select! {
                // A cancelled stream still sends its last message.
                served = served => served,
                () = async { proxy.cancel.cancelled().await; tokio::time::sleep(deadlines::PROXY_RESPONSES).await } => Ok(()),
            };
            if let Err(error) = served {
                tracing::debug!(%error, "a client disconnected");
            }
        });
    }
    connections.close();
    if tokio::time::timeout(deadlines::PROXY_RESPONSES * 2, connections.wait()).await.is_err() {
        tracing::warn!("some responses were cut off");
    }
    project.close(true).await;
    Ok(Outcome::Done)
}

async fn respond(proxy: Arc<Proxy>, request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
    Ok(handle(&proxy, request).await.unwrap_or_else(|(status, error)| {
        let body = json!({ "error": { "message": error } }).to_string();
        let mut response = Response::new(Full::new(Bytes::from(body)).boxed());
        *response.status_mut() = status;
        response
            .headers_mut()
            .insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static("application/json"));
        response
    }))
}

async fn handle(proxy: &Proxy, request: Request<Incoming>) -> Result<Response<Body>, (StatusCode, String)> {
    let header = request.headers().get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    // The name of the scheme is case-insensitive (RFC 9110 §11.1).
    let bearer = header
        .and_then(|value| value.split_once(' '))
        .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
    if !proxy.token.is(bearer.map(|(_, token)| token).unwrap_or_default().trim()) {
        return Err((StatusCode::UNAUTHORIZED, format!("the token differs from the proxy's {TOKEN}")));
    }
    match (request.method(), request.uri().path()) {
        (&Method::POST, "/api/stream") => {}
        (_, "/api/stream") => return Err((StatusCode::METHOD_NOT_ALLOWED, "use POST".to_owned())),
        (_, path) => {
            return Err((StatusCode::NOT_FOUND, format!("there is nothing at {path}; POST /api/stream")));
        }
    }
    let body = tokio::time::timeout(BODY, Limited::new(request.into_body(), MAX_BODY).collect()).await;
    let body = body.map_err(|_| (StatusCode::REQUEST_TIMEOUT, "the request timed out".to_owned()))?;
    let body = body.map_err(|error| (StatusCode::PAYLOAD_TOO_LARGE, error.to_string()))?.to_bytes();
    let (name, request) = read_request(&body).map_err(|error| (StatusCode::BAD_REQUEST, error))?;
    if !name.contains('/') || name.starts_with("script:") || name.starts_with("replay:") {
        return Err((StatusCode::BAD_REQUEST, format!("`{name}` is not a PROVIDER/MODEL")));
    }
    let without_secrets = StreamRedactor::new(
        // Redacts the keys of this process; other secrets belong to the client.
        Redactor::of_learned(&String::from_utf8_lossy(&body)),
        Redactor::from_env().without_shapes(),
    );
    drop(body);
    let model = proxy.model(&name, &request.session_id);
    let model = model.map_err(|error| (StatusCode::NOT_FOUND, format!("{error:#}")))?;
    tracing::info!(model = name, "forwarding a request");
    let stream = model.stream(request, proxy.cancel.child_token());
    let streamed = Streamed { stream, without_secrets, encoder: ProxyEncoder::default() };
    let body = StreamBody::new(stream::unfold(Some(streamed), next));
    let mut response = Response::new(body.boxed());
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, hyper::header::HeaderValue::from_static("no-store"));
    Ok(response)
}

/// A streaming response without the keys of this process.
struct Streamed {
    stream: MessageStream,
    without_secrets: StreamRedactor,
    encoder: ProxyEncoder,
}

/// Returns the next part of the response.
///
/// If the client disconnects, hyper drops the stream and with it the request to the provider.
async fn next(streamed: Option<Streamed>) -> Option<(Result<Frame<Bytes>, Infallible>, Option<Streamed>)> {
    let mut streamed = streamed?;
    let Ok(event) = tokio::time::timeout(PING, streamed.stream.next()).await else {
        return Some((Ok(Frame::data(Bytes::from_static(b": ping\n\n"))), Some(streamed)));
    };
    let event = event?;
    let is_last = matches!(event, StreamEvent::Done { .. } | StreamEvent::Error { .. });
    let events = streamed.without_secrets.pass(event);
    let piece: String = events.iter().map(|event| streamed.encoder.write(event)).collect();
    Some((Ok(Frame::data(Bytes::from(piece))), (!is_last).then_some(streamed)))
}

/// Whether the model of this name is cached for this session.
fn is_cached(name: &str, session_id: &str) -> bool {
    session_id.len().max(name.len()) <= MAX_CACHED_NAME
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_with_long_names_are_not_cached() {
        let long = "x".repeat(MAX_CACHED_NAME + 1);
        assert!(is_cached("p/m", &long[1..]) && is_cached("p/m", ""));
        for (name, session_id) in [("p/m", long.as_str()), (&long, "s")] {
            assert!(!is_cached(name, session_id));
        }
    }
}
