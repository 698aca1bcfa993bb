//! `pilcrow proxy`: asks models for those who have no keys (`docs/protocols/proxy.md`). It decides about nothing but the token:
//! what is asked is asked as it came, with the settings and keys of this process.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full, Limited, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::header::{AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use llm::protocol::pilcrow_proxy::{ProxyEncoder, read_request};
use llm::{MessageStream, StreamEvent};
use serde_json::json;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::{Exit, wrong_use};
use crate::models::Asking;
use crate::project::{Access, Project};
use crate::{cli, output, stop};

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
/// How long answers that stream get to end with the process.
const GRACE: Duration = Duration::from_secs(1);

type Body = BoxBody<Bytes, Infallible>;

struct Proxy {
    project: Arc<Project>,
    token: String,
    cancel: CancellationToken,
}

/// Serves until it is stopped.
pub async fn serve(listen: SocketAddr, project: &cli::Project) -> anyhow::Result<Exit> {
    let token = std::env::var(TOKEN).unwrap_or_default().trim().to_owned();
    if token.is_empty() {
        return Ok(wrong_use(&format!("set {TOKEN} to the token that clients must send")));
    }
    let cancel = stop::on_signal()?;
    let project = Arc::new(Project::open(project, Access { yes: false, keep: false, trusted: false })?);
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
    let proxy = Arc::new(Proxy { project: Arc::clone(&project), token, cancel: cancel.clone() });
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
    Ok(Exit::Done)
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
    let given = given.and_then(|value| value.strip_prefix("Bearer ")).unwrap_or_default();
    if !is_same(given.trim(), &proxy.token) {
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
    let project = &proxy.project;
    let folder = project.workspace.root().as_path();
    let asking = Asking { project, config: &project.config, folder, found: None, files: &[] };
    let model =
        asking.choose(Some(&name)).map_err(|error| (StatusCode::NOT_FOUND, format!("{error:#}")))?.model;
    tracing::info!(model = name, "asked by the proxy");
    let stream = model.stream(request, proxy.cancel.child_token());
    let body = StreamBody::new(stream::unfold(Some((stream, ProxyEncoder::default())), next));
    let mut response = Response::new(body.boxed());
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, hyper::header::HeaderValue::from_static("no-store"));
    Ok(response)
}

type Streamed = Option<(MessageStream, ProxyEncoder)>;

/// The next piece of the answer. A client that goes away drops the stream, and so the request to the provider.
async fn next(streamed: Streamed) -> Option<(Result<Frame<Bytes>, Infallible>, Streamed)> {
    let (mut stream, mut encoder) = streamed?;
    let Ok(event) = tokio::time::timeout(PING, stream.next()).await else {
        return Some((Ok(Frame::data(Bytes::from_static(b": ping\n\n"))), Some((stream, encoder))));
    };
    let event = event?;
    let is_last = matches!(event, StreamEvent::Done { .. } | StreamEvent::Error { .. });
    let piece = Bytes::from(encoder.write(&event));
    Some((Ok(Frame::data(piece)), (!is_last).then_some((stream, encoder))))
}

/// Whether the tokens are the same, in a time that does not tell how much of them is.
fn is_same(given: &str, token: &str) -> bool {
    let differing = given.bytes().zip(token.bytes()).fold(0, |differing, (a, b)| differing | (a ^ b));
    given.len() == token.len() && differing == 0
}
