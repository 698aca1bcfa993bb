//! `pilcrow proxy`: asks models for those who have no keys (`docs/protocols/proxy.md`). It decides about nothing but the token:
//! what is asked is asked as it came, with the settings and keys of this process.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use agent::events::StreamRedactor;
use futures_util::stream;
use host::Outcome;
use host::models::Asking;
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
use serde_json::json;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::wrong_use;
use crate::{cli, open, output, stop};

/// The variable with the token.
const TOKEN: &str = "PILCROW_PROXY_TOKEN";
/// The most that a request may have: images are in it.
const LARGEST: usize = 256 * 1024 * 1024;
/// A word in a stream that says nothing for this long.
const PING: Duration = Duration::from_secs(15);
/// How long a client may take to say what it wants.
const HEADERS: Duration = Duration::from_secs(10);
/// And to send it.
const BODY: Duration = Duration::from_secs(120);
/// Sessions whose models are kept, and the longest name that one is kept by.
const MOST_KEPT: usize = 256;
const LONGEST_KEPT: usize = 512;
/// How long answers that stream get to end with the process.
const GRACE: Duration = Duration::from_secs(1);

type Body = BoxBody<Bytes, Infallible>;

struct Proxy {
    project: Arc<Project>,
    token: ApiKey,
    cancel: CancellationToken,
    kept: Mutex<VecDeque<Kept>>,
}

/// A model that a session has asked: the next request of it has the same key, for which the provider's cache holds, and the same
/// connection.
struct Kept {
    name: String,
    session_id: String,
    model: Arc<dyn Model>,
}

impl Proxy {
    /// The model for a request of this session; one without a session is asked anew each time.
    fn model(&self, name: &str, session_id: &str) -> anyhow::Result<Arc<dyn Model>> {
        let kept = || self.kept.lock();
        let is_it = |it: &Kept| it.name == name && it.session_id == session_id;
        {
            let mut kept = kept();
            if let Some(at) = kept.iter().position(is_it)
                && let Some(it) = kept.remove(at)
            {
                let model = Arc::clone(&it.model);
                kept.push_back(it);
                return Ok(model);
            }
        }
        let project = &self.project;
        let folder = project.workspace.root().as_path();
        let asking = Asking { project, config: &project.config, folder, found: None, files: &[] };
        let model = asking.choose(Some(name))?.model;
        if is_kept(name, session_id) {
            let mut kept = kept();
            while kept.len() >= MOST_KEPT {
                kept.pop_front();
            }
            kept.push_back(Kept {
                name: name.to_owned(),
                session_id: session_id.to_owned(),
                model: Arc::clone(&model),
            });
        }
        Ok(model)
    }
}

/// Serves until it is stopped.
pub async fn serve(listen: SocketAddr, project: &cli::Project) -> anyhow::Result<Outcome> {
    let Some(token) = ApiKey::new(&std::env::var(TOKEN).unwrap_or_default()) else {
        return Ok(wrong_use(&format!("set {TOKEN} to the token that clients must send")));
    };
    let cancel = stop::on_signal()?;
    let project = Arc::new(open::open(project, Access { yes: false, keep: false, trusted: false })?);
    if project.config.proxy().is_some() {
        return Ok(wrong_use("proxy.url is set: this is the one that is asked, and asks nobody else"));
    }
    let listener = TcpListener::bind(listen).await?;
    let address = listener.local_addr()?;
    output::line(&format!("listening on http://{address}"));
    if !address.ip().is_loopback() {
        output::note(
            "pilcrow: whoever reaches this address and has the token asks models with your keys, unencrypted",
        );
    }
    let proxy =
        Proxy { project: Arc::clone(&project), token, cancel: cancel.clone(), kept: Mutex::default() };
    let proxy = Arc::new(proxy);
    let connections = TaskTracker::new();
    loop {
        // A connection that is not taken here waits in the system's queue.
        let accepted = tokio::select! {
            () = cancel.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "a connection was lost before it was taken");
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let proxy = Arc::clone(&proxy);
        connections.spawn(async move {
            let service = service_fn(|request| answer(Arc::clone(&proxy), request));
            let mut http = hyper::server::conn::http1::Builder::new();
            // Without a timer no deadline holds.
            http.timer(TokioTimer::new()).header_read_timeout(HEADERS);
            let served = http.serve_connection(TokioIo::new(stream), service);
            let served = tokio::select! {
                // Streams end in a message of their own when they are cancelled, for which this waits.
                served = served => served,
                () = async { proxy.cancel.cancelled().await; tokio::time::sleep(GRACE).await } => Ok(()),
            };
            if let Err(error) = served {
                tracing::debug!(%error, "a client went away");
            }
        });
    }
    connections.close();
    if tokio::time::timeout(GRACE * 2, connections.wait()).await.is_err() {
        tracing::warn!("clients were left in the middle");
    }
    project.close(true).await;
    Ok(Outcome::Done)
}

async fn answer(proxy: Arc<Proxy>, request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
    Ok(answered(&proxy, request).await.unwrap_or_else(|(status, error)| {
        let body = json!({ "error": { "message": error } }).to_string();
        let mut response = Response::new(Full::new(Bytes::from(body)).boxed());
        *response.status_mut() = status;
        response
            .headers_mut()
            .insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static("application/json"));
        response
    }))
}

async fn answered(proxy: &Proxy, request: Request<Incoming>) -> Result<Response<Body>, (StatusCode, String)> {
    let given = request.headers().get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    // The scheme's name is written in any case (RFC 9110 §11.1).
    let given =
        given.and_then(|value| value.split_once(' ')).filter(|(it, _)| it.eq_ignore_ascii_case("bearer"));
    let given = given.map(|(_, token)| token).unwrap_or_default();
    if !proxy.token.is(given.trim()) {
        return Err((StatusCode::UNAUTHORIZED, format!("the token is not that of {TOKEN}")));
    }
    match (request.method(), request.uri().path()) {
        (&Method::POST, "/api/stream") => {}
        (_, "/api/stream") => return Err((StatusCode::METHOD_NOT_ALLOWED, "POST it".to_owned())),
        (_, path) => {
            return Err((StatusCode::NOT_FOUND, format!("there is nothing at {path}; POST /api/stream")));
        }
    }
    let body = tokio::time::timeout(BODY, Limited::new(request.into_body(), LARGEST).collect()).await;
    let body =
        body.map_err(|_| (StatusCode::REQUEST_TIMEOUT, "the request did not come in time".to_owned()))?;
    let body = body.map_err(|error| (StatusCode::PAYLOAD_TOO_LARGE, error.to_string()))?.to_bytes();
    let (name, request) = read_request(&body).map_err(|error| (StatusCode::BAD_REQUEST, error))?;
    if !name.contains('/') || name.starts_with("script:") || name.starts_with("replay:") {
        return Err((StatusCode::BAD_REQUEST, format!("`{name}` is no PROVIDER/MODEL")));
    }
    let without_secrets = StreamRedactor::new(
        // The keys that requests are made with; what else looks like a secret is the client's own.
        Redactor::of_learned(&String::from_utf8_lossy(&body)),
        Redactor::from_env().without_shapes(),
    );
    drop(body);
    let model = proxy.model(&name, &request.session_id);
    let model = model.map_err(|error| (StatusCode::NOT_FOUND, format!("{error:#}")))?;
    tracing::info!(model = name, "asked by the proxy");
    let stream = model.stream(request, proxy.cancel.child_token());
    let streamed = Streamed { stream, without_secrets, encoder: ProxyEncoder::default() };
    let body = StreamBody::new(stream::unfold(Some(streamed), next));
    let mut response = Response::new(body.boxed());
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, hyper::header::HeaderValue::from_static("no-store"));
    Ok(response)
}

/// An answer on its way to a client, who must not see the keys of this process.
struct Streamed {
    stream: MessageStream,
    without_secrets: StreamRedactor,
    encoder: ProxyEncoder,
}

/// The next piece of the answer. A client that goes away drops the stream, and so the request to the provider.
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

/// Whether the model of this name is kept for this session.
fn is_kept(name: &str, session_id: &str) -> bool {
    !session_id.is_empty() && session_id.len().max(name.len()) <= LONGEST_KEPT
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_kept_by_a_name_that_is_long() {
        let long = "x".repeat(LONGEST_KEPT + 1);
        assert!(is_kept("p/m", &long[1..]));
        for (name, session_id) in [("p/m", ""), ("p/m", &long), (&long, "s")] {
            assert!(!is_kept(name, session_id));
        }
    }
}
