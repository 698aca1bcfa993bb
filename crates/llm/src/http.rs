//! HTTP transport of all protocols.
//!
//! It sends requests with timeouts and retries, and decodes the answer.
//!
//! Dropping the future cancels it; nothing outlives it. The first request creates the client, since
//! that takes milliseconds. Redirects are not followed, so that a key goes only to its own address.
//! No log or error contains the key.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use reqwest::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Response, StatusCode};
use serde_json::Value;
use tokio::time::{Instant, timeout, timeout_at};

use crate::key_source::{KeyError, KeyRejection, KeySource, RejectionReason};
use crate::message::{ErrorKind, ModelError};
use crate::model::{Request, SharedObserver};
use crate::overflow;
use crate::partial_json::parse_repaired;
use crate::protocol::{Decoder, HttpRequest, error_words};
use crate::response_form::{self, ResponseForm};
use crate::retry::{RetryHeaders, RetryPolicy, asked_delay, delay, is_quota_exhausted, is_retryable};
use crate::stream::{StreamEvent, StreamWriter};

/// Maximum size of an answer that is not a stream.
const WHOLE_LIMIT: usize = 64 * 1024 * 1024;
/// Maximum size of an error body, and maximum time to read it.
const ERROR_LIMIT: usize = 64 * 1024;
const ERROR_DEADLINE: Duration = Duration::from_secs(10);
/// Maximum bytes from which an answer's form is detected, and of an excerpt.
const HEAD_LIMIT: usize = 64 * 1024;
const EXCERPT_LIMIT: usize = 4096;
/// Maximum number of keys tried for one request.
const MOST_KEYS: u32 = 16;

/// Encodings that compress the body; gateways send other values, such as `none`.
const PACKED: [&str; 7] = ["gzip", "x-gzip", "deflate", "br", "zstd", "compress", "x-compress"];

/// Time limit for a local server to load its model.
const LOADING: Duration = Duration::from_secs(15 * 60);

/// Content type of every request.
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// Timeouts of a model's server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    pub connect: Duration,
    /// Time from the request to the first byte of the body.
    pub first_byte: Duration,
    /// Maximum time between bytes; comments and pings count.
    pub idle: Duration,
}

impl Timeouts {
    /// Default timeouts of a model at this address: 30 s, 120 s and 120 s.
    ///
    /// A model that thinks may be silent for 300 s. A server on this machine or local network gets 15
    /// minutes to the first byte, because it may have to load the model.
    pub fn for_url(url: &str, thinks: bool) -> Timeouts {
        let idle = Duration::from_secs(if thinks { 300 } else { 120 });
        let first_byte = if is_local(url) { LOADING } else { idle };
        Timeouts { connect: Duration::from_secs(30), first_byte, idle }
    }
}

fn host(url: &str) -> Option<String> {
    let url = reqwest::Url::parse(url).ok()?;
    url.host_str().map(|host| host.trim_matches(['[', ']']).to_ascii_lowercase())
}

pub(crate) fn is_loopback(url: &str) -> bool {
    host(url).is_some_and(|host| {
        host == "localhost"
            || host.ends_with(".localhost")
            || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
    })
}

fn is_local(url: &str) -> bool {
    is_loopback(url)
        || host(url).is_some_and(|host| {
            host.ends_with(".local")
                || host.parse::<std::net::Ipv4Addr>().is_ok_and(|it| it.is_private() || it.is_unspecified())
        })
}

/// The connection to one provider.
#[derive(Debug)]
pub(crate) struct Transport {
    provider: String,
    /// Source of keys, if they are not in the request.
    keys: Option<Arc<dyn KeySource>>,
    timeouts: Timeouts,
    retry: RetryPolicy,
    /// Hints added to an error of this status.
    texts: BTreeMap<u16, String>,
    client: OnceLock<Result<reqwest::Client, String>>,
}

/// A request that failed before it streamed.
struct RequestFailure {
    kind: ErrorKind,
    error: String,
    retryable: bool,
    /// The defect of the key, if it caused the failure.
    key: Option<RejectionReason>,
    headers: RetryHeaders,
}

/// A request with the id of its response.
#[derive(Clone, Copy)]
struct Exchange<'a> {
    request: &'a HttpRequest,
    id: Option<&'a str>,
}

impl Transport {
    pub fn new(
        provider: &str,
        timeouts: Timeouts,
        retry: RetryPolicy,
        texts: BTreeMap<u16, String>,
    ) -> Transport {
        Transport {
            provider: provider.to_owned(),
            keys: None,
            timeouts,
            retry,
            texts,
            client: OnceLock::new(),
        }
    }

    /// Sets a source of keys, which each attempt asks first.
    pub(crate) fn with_keys(self, keys: Option<Arc<dyn KeySource>>) -> Transport {
        Transport { keys, ..self }
    }

    /// Sets the key of the next attempt.
    async fn take_key(&self, request: &mut HttpRequest) -> Result<(), KeyError> {
        let Some(keys) = &self.keys else { return Ok(()) };
        let key = keys.key().await?;
        // Messages about an earlier attempt must not contain its key either.
        request.secrets.extend(request.key.take().map(|(_, key)| key));
        request.key = key.map(|key| (request.auth.clone(), key));
        Ok(())
    }

    /// Whether another key is available after this rejection.
    fn has_other_key(&self, request: &HttpRequest, refused: &RequestFailure) -> bool {
        let (Some(keys), Some((_, key)), Some(why)) = (&self.keys, &request.key, refused.key) else {
            return false;
        };
        keys.rejected(key, KeyRejection { why, after: refused.headers.after })
    }

    /// Sends the request and ends the stream in every case.
    pub async fn run(
        &self,
        mut request: HttpRequest,
        mut decoder: Box<dyn Decoder>,
        asked: &Request,
        own_key: bool,
        writer: StreamWriter,
    ) {
        let Request { observer, patience, retries, .. } = asked;
        let observer = observer.as_ref();
        if let Some(observer) = observer
            && let Some(body) = observer.0.payload(&request.body).await
        {
            request.body = body;
        }
        let (mut attempt, mut other_keys) = (*retries, 0);
        let (response, first_byte) = loop {
            if !own_key && let Err(error) = self.take_key(&mut request).await {
                return writer.fail(ErrorKind::Authentication, error.to_string());
            }
            let first_byte = Instant::now() + self.timeouts.first_byte;
            let refused = match self.send(&request, observer, first_byte).await {
                Ok(response) => break (response, first_byte),
                Err(refused) => refused,
            };
            let error = self.without_key(&request, refused.error.clone());
            if !own_key && other_keys < MOST_KEYS && self.has_other_key(&request, &refused) {
                other_keys += 1;
                tracing::info!(provider = self.provider, error, "retrying with another key");
                continue;
            }
            if !refused.retryable || attempt >= self.retry.max_retries {
                return writer.fail(refused.kind, error);
            }
            match delay(&self.retry, &refused.headers, attempt, crate::random()) {
                Ok(delay) if patience.is_some_and(|patience| delay > patience) => {
                    return writer.fail(refused.kind, error);
                }
                Ok(delay) => {
                    attempt += 1;
                    tracing::info!(provider = self.provider, attempt, ?delay, error, "retrying a request");
                    writer.push(StreamEvent::Retrying {
                        attempt,
                        max: self.retry.max_retries,
                        delay_ms: u64::try_from(delay.as_millis()).unwrap_or(u64::MAX),
                        error,
                    });
                    tokio::time::sleep(delay).await;
                }
                Err(asked) => {
                    let error = format!(
                        "{error}; the server asked to wait {} s, more than the limit of {} s",
                        asked.as_secs(),
                        self.retry.max_delay.as_secs()
                    );
                    return writer.fail(refused.kind, error);
                }
            }
        };
        if !decoder.has_start_event() {
            writer.push(StreamEvent::Start);
        }
        let id = request_id(&response);
        let exchange = Exchange { request: &request, id: id.as_deref() };
        let outcome = self.answer(exchange, response, first_byte, decoder.as_mut(), &writer).await;
        let cut = outcome.err().map(|error| ModelError {
            message: self.without_key(exchange.request, error.message.clone()),
            ..error
        });
        for event in decoder.finish(cut) {
            writer.push(self.redact_event(exchange, event));
        }
    }

    fn without_key(&self, request: &HttpRequest, error: String) -> String {
        let key = request.key.iter().map(|(_, key)| key);
        key.chain(&request.secrets).fold(error, |error, secret| secret.redact(&error))
    }

    /// Redacts an error event and adds the request id.
    ///
    /// Servers quote keys in errors inside a stream.
    fn redact_event(&self, exchange: Exchange<'_>, event: StreamEvent) -> StreamEvent {
        let StreamEvent::Error { mut message } = event else { return event };
        if let Some(error) = message.error_message.clone() {
            let mut error = self.without_key(exchange.request, error);
            if let Some(id) = exchange.id.filter(|id| !error.contains(id)) {
                error.push_str(&format!(" (request id {id})"));
            }
            Arc::make_mut(&mut message).error_message = Some(error);
        }
        StreamEvent::Error { message }
    }

    fn client(&self, url: &str) -> Result<&reqwest::Client, RequestFailure> {
        let made = self.client.get_or_init(|| {
            // `Err` means that another part of the process has installed a provider, which is equivalent.
            rustls::crypto::ring::default_provider().install_default().ok();
            let builder = reqwest::Client::builder()
                .user_agent(concat!("pilcrow/", env!("CARGO_PKG_VERSION")))
                .connect_timeout(self.timeouts.connect)
                .redirect(reqwest::redirect::Policy::none());
            let builder = if is_loopback(url) { builder.no_proxy() } else { builder };
            builder.build().map_err(|error| chain(&error))
        });
        made.as_ref().map_err(|error| RequestFailure::fatal(format!("cannot make an HTTP client: {error}")))
    }

    async fn send(
        &self,
        request: &HttpRequest,
        observer: Option<&SharedObserver>,
        first_byte: Instant,
    ) -> Result<Response, RequestFailure> {
        let client = self.client(&request.url)?;
        let body = serde_json::to_vec(&request.body)
            .map_err(|error| RequestFailure::fatal(format!("the request cannot be written: {error}")))?;
        let headers = headers(request, &body)?;
        let builder = client.post(&request.url).headers(headers).body(body);
        let sent = match timeout_at(first_byte, builder.send()).await {
            Ok(sent) => sent,
            Err(_) => {
                return Err(RequestFailure {
                    kind: ErrorKind::Timeout,
                    error: self.silence("no answer", self.timeouts.first_byte),
                    // A server that loads a model would start over.
                    retryable: self.timeouts.first_byte < LOADING,
                    key: None,
                    headers: RetryHeaders::default(),
                });
            }
        };
        let response = sent.map_err(|error| self.not_sent(&request.url, error))?;
        if let Some(observer) = observer {
            let shown = |(name, value): (&HeaderName, &HeaderValue)| {
                (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned())
            };
            let headers: Vec<_> = response.headers().iter().map(shown).collect();
            observer.0.response(response.status().as_u16(), &headers);
        }
        if response.status().is_success() {
            return Ok(response);
        }
        Err(self.error_answer(request, response).await)
    }

    fn not_sent(&self, url: &str, error: reqwest::Error) -> RequestFailure {
        if error.is_builder() {
            let url = shown(url);
            return RequestFailure::fatal(format!(
                "cannot send a request to {url}: {}",
                chain(&error.without_url())
            ));
        }
        let kind = not_sent_kind(error.is_timeout(), error.is_connect());
        let is_down = error.is_connect() && is_local(url);
        let hint = if is_down { "; is the server running?" } else { "" };
        RequestFailure {
            kind,
            error: format!(
                "cannot reach {} at {}: {}{hint}",
                self.provider,
                shown(url),
                chain(&error.without_url())
            ),
            retryable: !is_down,
            key: None,
            headers: RetryHeaders::default(),
        }
    }

    async fn error_answer(&self, request: &HttpRequest, response: Response) -> RequestFailure {
        let status = response.status();
        let header = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok());
        let mut headers = RetryHeaders::read(header, jiff::Timestamp::now());
        let request_id = request_id(&response);
        // The key is redacted before shortening: a part of a key would not be found.
        let body = self.without_key(request, read_some(response).await);
        headers.after = headers.after.or_else(|| asked_delay(&body));
        let parsed = serde_json::from_str::<Value>(&body).unwrap_or_default();
        let text = error_message(&parsed, status.as_u16()).unwrap_or_else(|| excerpt(&body));
        let request_id = request_id.or_else(|| parsed["request_id"].as_str().map(str::to_owned));
        let request_id = request_id.map(|id| format!(" (request id {id})")).unwrap_or_default();
        let own = self.texts.get(&status.as_u16()).map(|text| format!("; {text}"));
        let hint = match status {
            _ if own.is_some() => own.as_deref().unwrap_or_default(),
            _ if is_bad_key(status, &body) => "; check the API key",
            StatusCode::NOT_FOUND => "; check the base URL and the model's name",
            _ if status.is_redirection() => {
                "; redirects are not followed, give the final address as base URL"
            }
            _ => "",
        };
        let key = match status {
            _ if is_bad_key(status, &body) => Some(RejectionReason::Unknown),
            StatusCode::PAYMENT_REQUIRED | StatusCode::FORBIDDEN => Some(RejectionReason::Quota),
            StatusCode::TOO_MANY_REQUESTS if is_quota_exhausted(&body) => Some(RejectionReason::Quota),
            StatusCode::TOO_MANY_REQUESTS => Some(RejectionReason::Rate),
            _ => None,
        };
        let colon = if text.is_empty() { "" } else { ": " };
        RequestFailure {
            kind: answer_kind(status, &body),
            error: format!(
                "{} answered {}{colon}{text}{request_id}{hint}",
                self.provider,
                status_words(status)
            ),
            retryable: is_retryable(status.as_u16(), &headers, &body),
            key,
            headers,
        }
    }

    /// Reads the answer according to its form.
    ///
    /// The error states why it is not an answer, or why it broke off.
    async fn answer(
        &self,
        exchange: Exchange<'_>,
        response: Response,
        first_byte: Instant,
        decoder: &mut dyn Decoder,
        writer: &StreamWriter,
    ) -> Result<(), ModelError> {
        let (status, content_type) = (response.status(), header(&response, CONTENT_TYPE));
        let encoding = header(&response, CONTENT_ENCODING);
        if encoding.split(',').any(|it| PACKED.contains(&it.trim())) {
            let provider = &self.provider;
            let error = format!(
                "{provider} answered in the encoding {encoding}, which Pilcrow did not request; check the proxy"
            );
            return Err(ModelError::new(ErrorKind::Provider, error));
        }
        let mut body = Body {
            response,
            timeouts: self.timeouts,
            deadline: first_byte,
            waited: self.timeouts.first_byte,
        };
        let mut head = Vec::new();
        while response_form::significant(&head).is_empty() && head.len() < HEAD_LIMIT {
            match body.next().await.map_err(|stop| self.stopped(stop))? {
                Some(chunk) => head.extend_from_slice(&chunk),
                None => break,
            }
        }
        match response_form::detect(&content_type, &head) {
            ResponseForm::Events => {
                let is_text = content_type.starts_with("text/");
                self.events(exchange, body, head, is_text, decoder, writer).await
            }
            ResponseForm::Whole => self.whole(exchange, body, head, decoder, writer).await,
            ResponseForm::Page => {
                let read = async {
                    // The part before the failure is enough.
                    while head.len() < ERROR_LIMIT
                        && let Ok(Some(chunk)) = body.next().await
                    {
                        head.extend_from_slice(&chunk);
                    }
                };
                if timeout(ERROR_DEADLINE, read).await.is_err() {
                    tracing::debug!("reading a web page timed out");
                }
                // The key is redacted before shortening: a part of a key would not be found.
                let excerpt =
                    excerpt(&self.without_key(exchange.request, String::from_utf8_lossy(&head).into_owned()));
                let provider = &self.provider;
                // The error is not retryable: a login page would come again.
                Err(ModelError::new(
                    ErrorKind::Provider,
                    format!(
                        "{provider} answered {status} with a web page instead of an event stream; \
                         check the base URL and the proxy: {excerpt}"
                    ),
                ))
            }
        }
    }

    fn stopped(&self, stop: Stop) -> ModelError {
        match stop {
            Stop::Broke(error) => {
                let error = chain(&error.without_url());
                ModelError::new(
                    ErrorKind::Network,
                    format!("the connection to {} broke: {error}", self.provider),
                )
            }
            Stop::Silent(waited) => ModelError::new(ErrorKind::Timeout, self.silence("nothing came", waited)),
        }
    }

    /// Feeds the stream, which begins with `head`, to the decoder until it ends.
    async fn events(
        &self,
        exchange: Exchange<'_>,
        mut body: Body,
        head: Vec<u8>,
        is_text: bool,
        decoder: &mut dyn Decoder,
        writer: &StreamWriter,
    ) -> Result<(), ModelError> {
        let mut start = head.clone();
        let mut next = head;
        loop {
            for event in decoder.feed(&next) {
                writer.push(self.redact_event(exchange, event));
            }
            if decoder.ended() {
                return Ok(());
            }
            let Some(chunk) = body.next().await.map_err(|stop| self.stopped(stop))? else { break };
            if start.len() < EXCERPT_LIMIT {
                start.extend_from_slice(&chunk);
            }
            next = chunk;
        }
        let said = String::from_utf8_lossy(&start).into_owned();
        if response_form::has_events(&start)
            || said.trim().is_empty()
            || !is_text && said.contains('\u{fffd}')
        {
            return Ok(());
        }
        let excerpt = excerpt(&self.without_key(exchange.request, said));
        // The error is not retryable: a login page would come again.
        let error = format!("{} sent no event stream: {excerpt}", self.provider);
        Err(ModelError::new(ErrorKind::Provider, error))
    }

    /// Reads an answer that is one JSON text, from a server that does not stream.
    async fn whole(
        &self,
        exchange: Exchange<'_>,
        mut body: Body,
        head: Vec<u8>,
        decoder: &mut dyn Decoder,
        writer: &StreamWriter,
    ) -> Result<(), ModelError> {
        let mut whole = head;
        while let Some(chunk) = body.next().await.map_err(|stop| self.stopped(stop))? {
            if whole.len() + chunk.len() > WHOLE_LIMIT {
                // The error is not retryable: the same answer would come again.
                let error = format!("{} sent an answer of more than {WHOLE_LIMIT} bytes", self.provider);
                return Err(ModelError::new(ErrorKind::Provider, error));
            }
            whole.extend_from_slice(&chunk);
        }
        let text = String::from_utf8_lossy(&whole);
        match parse_repaired(text.trim_start_matches('\u{feff}')) {
            Ok(answer) => {
                for event in decoder.feed_whole(&answer) {
                    writer.push(self.redact_event(exchange, event));
                }
                Ok(())
            }
            Err(error) => {
                // A text that only begins like JSON is quoted.
                let said = excerpt(&self.without_key(exchange.request, text.into_owned()));
                let error = format!("{} sent JSON that cannot be read ({error}): {said}", self.provider);
                Err(ModelError::new(ErrorKind::Protocol, error))
            }
        }
    }

    fn silence(&self, what: &str, after: Duration) -> String {
        format!("{what} from {} for {} s", self.provider, after.as_secs_f64())
    }
}

impl RequestFailure {
    fn fatal(error: String) -> RequestFailure {
        let headers = RetryHeaders::default();
        RequestFailure { kind: ErrorKind::Internal, error, retryable: false, key: None, headers }
    }
}

/// The status with its reason phrase, if it has one.
fn status_words(status: StatusCode) -> String {
    match (status.as_u16(), status.canonical_reason()) {
        (_, Some(_)) => status.to_string(),
        // Anthropic uses this status.
        (529, None) => "529 (overloaded)".to_owned(),
        (number, None) => number.to_string(),
    }
}

/// An address without user info and query, which may be secret.
fn shown(url: &str) -> String {
    let url = &url[..url.find(['?', '#']).unwrap_or(url.len())];
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let host = authority.rsplit('@').next().unwrap_or(authority);
    format!("{scheme}://{host}{path}")
}

/// Kind of a request that was not sent.
///
/// A connect timeout counts as unreachable: only a connected server can be silent.
fn not_sent_kind(is_timeout: bool, is_connect: bool) -> ErrorKind {
    if is_timeout && !is_connect { ErrorKind::Timeout } else { ErrorKind::Network }
}

/// Whether an answer says that the key is invalid or lacks permission.
fn is_bad_key(status: StatusCode, body: &str) -> bool {
    match status {
        StatusCode::UNAUTHORIZED => true,
        // Some providers use this status for quotas.
        StatusCode::FORBIDDEN => !is_quota_exhausted(body),
        // Google uses this code for an unknown key.
        StatusCode::BAD_REQUEST => body.contains("API_KEY_INVALID"),
        _ => false,
    }
}

/// The kind of failure of an answer with this error status.
fn answer_kind(status: StatusCode, body: &str) -> ErrorKind {
    match status {
        _ if overflow::is_overflow_response(status.as_u16(), body) => ErrorKind::ContextOverflow,
        _ if is_bad_key(status, body) => ErrorKind::Authentication,
        StatusCode::TOO_MANY_REQUESTS | StatusCode::PAYMENT_REQUIRED | StatusCode::FORBIDDEN => {
            ErrorKind::RateLimit
        }
        // Both are retryable; when no retry is left, the server counts as unavailable.
        StatusCode::REQUEST_TIMEOUT | StatusCode::CONFLICT => ErrorKind::Unavailable,
        status if status.is_server_error() => ErrorKind::Unavailable,
        _ => ErrorKind::Provider.refined(body),
    }
}

fn headers(request: &HttpRequest, body: &[u8]) -> Result<HeaderMap, RequestFailure> {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, JSON);
    for (name, value) in &request.headers {
        let parsed = HeaderName::from_bytes(name.as_bytes()).ok().zip(HeaderValue::from_str(value).ok());
        let Some((header, value)) = parsed else {
            return Err(RequestFailure::fatal(format!("the configured header {name:?} cannot be sent")));
        };
        headers.insert(header, value);
    }
    if let Some((auth, key)) = &request.key {
        let Ok(name) = HeaderName::from_bytes(auth.header.as_bytes()) else {
            return Err(RequestFailure::fatal(format!(
                "the configured header {:?} cannot be sent",
                auth.header
            )));
        };
        let Ok(mut value) = HeaderValue::from_str(&format!("{}{}", auth.prefix, key.reveal())) else {
            let error = "the API key has characters that cannot be sent; check how it was copied".to_owned();
            return Err(RequestFailure { kind: ErrorKind::Authentication, ..RequestFailure::fatal(error) });
        };
        value.set_sensitive(true);
        headers.insert(name, value);
    } else if let Some(signing) = &request.signing {
        let signed = signing.headers(&request.url, body, std::time::SystemTime::now());
        let signed = signed
            .map_err(|error| RequestFailure::fatal(format!("the request cannot be signed: {error}")))?;
        for (name, value) in signed {
            let parsed = HeaderName::from_bytes(name.as_bytes()).ok().zip(HeaderValue::from_str(&value).ok());
            let Some((name, mut value)) = parsed else {
                let error = "the AWS keys have characters that cannot be sent; check how they were copied";
                return Err(RequestFailure {
                    kind: ErrorKind::Authentication,
                    ..RequestFailure::fatal(error.to_owned())
                });
            };
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        // The header is part of the signature.
        headers.insert(CONTENT_TYPE, JSON);
    }
    Ok(headers)
}

/// A header's value in lower case, without parameters.
fn header(response: &Response, name: HeaderName) -> String {
    let value = response.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// A response body, read with timeouts.
struct Body {
    response: Response,
    timeouts: Timeouts,
    deadline: Instant,
    waited: Duration,
}

/// Reason why no more bytes came.
enum Stop {
    Broke(reqwest::Error),
    Silent(Duration),
}

impl Body {
    /// The next bytes; `None` at the end.
    async fn next(&mut self) -> Result<Option<Vec<u8>>, Stop> {
        let chunk = match timeout_at(self.deadline, self.response.chunk()).await {
            Ok(chunk) => chunk.map_err(Stop::Broke)?,
            Err(_) => return Err(Stop::Silent(self.waited)),
        };
        self.waited = self.timeouts.idle;
        self.deadline = Instant::now() + self.waited;
        Ok(chunk.map(Vec::from))
    }
}

/// The start of a body, as far as it arrives within the deadline.
async fn read_some(mut response: Response) -> String {
    let mut body = Vec::new();
    let read = async {
        while body.len() < ERROR_LIMIT {
            match response.chunk().await {
                Ok(Some(chunk)) => body.extend_from_slice(&chunk),
                Ok(None) | Err(_) => break,
            }
        }
    };
    if timeout(ERROR_DEADLINE, read).await.is_err() {
        tracing::debug!("reading an error body timed out");
    }
    body.truncate(ERROR_LIMIT);
    String::from_utf8_lossy(&body).into_owned()
}

fn error_message(body: &Value, status: u16) -> Option<String> {
    // Google puts an error into a list of one.
    let body = if body.is_array() { &body[0] } else { body };
    let text = if body["error"]["message"].is_string() {
        error_words(&body["error"], Some(status))
    } else if body["message"].is_string() && body["error"].as_str().is_none() {
        error_words(body, Some(status))
    } else {
        [&body["error"], &body["detail"]].iter().find_map(|it| it.as_str())?.to_owned()
    };
    Some(shorten(text.trim(), 2000))
}

/// The id by which the provider can find the request.
fn request_id(response: &Response) -> Option<String> {
    let names = ["x-request-id", "request-id", "x-amzn-requestid", "apim-request-id", "cf-ray"];
    let mut found = names.iter().filter_map(|name| response.headers().get(*name)?.to_str().ok());
    found.find(|id| !id.is_empty()).map(str::to_owned)
}

/// A body as one short line, without tags if it is a web page.
fn excerpt(body: &str) -> String {
    let mut text = String::new();
    let mut in_tag = false;
    let is_page = body.trim_start().starts_with('<');
    for character in body.chars() {
        match character {
            '<' if is_page => in_tag = true,
            '>' if is_page && in_tag => {
                in_tag = false;
                text.push(' ');
            }
            _ if in_tag => {}
            _ => text.push(character),
        }
    }
    let words: Vec<&str> = text.split_whitespace().collect();
    shorten(&words.join(" "), 300)
}

fn shorten(text: &str, characters: usize) -> String {
    match text.char_indices().nth(characters) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// An error with its sources, since reqwest's own text says little.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let more = error.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        source = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_servers_get_time_to_load_a_model() {
        for (url, minutes) in [
            ("http://127.0.0.1:8080/v1", 15),
            ("http://[::1]:8080/v1", 15),
            ("http://localhost:11434/v1", 15),
            ("http://192.168.1.5/v1", 15),
            ("http://box.local/v1", 15),
            ("https://api.example.com/v1", 2),
            ("https://localhost.example.com/v1", 2),
            ("not a url", 2),
        ] {
            let Timeouts { connect, first_byte, idle } = Timeouts::for_url(url, false);
            assert_eq!(first_byte, Duration::from_secs(minutes * 60), "{url}");
            assert_eq!([connect, idle].map(|clock| clock.as_secs()), [30, 120], "{url}");
            assert_eq!(Timeouts::for_url(url, true).idle.as_secs(), 300, "{url}");
        }
    }

    #[test]
    fn a_request_is_signed_and_its_signature_does_not_print() {
        let keys = crate::sigv4::AwsCredentials {
            access_key_id: "AKID".to_owned(),
            secret_access_key: crate::ApiKey::new("aws-secret").unwrap(),
            session_token: crate::ApiKey::new("aws-token"),
            region: Some("us-east-1".to_owned()),
        };
        let mut endpoint = crate::Endpoint::new("aws", "http://127.0.0.1:1", "m");
        endpoint.aws = Some(keys);
        endpoint.headers = vec![("content-type".to_owned(), "text/odd".to_owned())];
        let protocol = crate::protocol::Protocols::default().get("bedrock-converse-stream").unwrap();
        let request = protocol.encode(&endpoint, &crate::Request::default()).unwrap();
        let signature = |body: &[u8]| {
            let Ok(headers) = headers(&request, body) else { panic!("it is signed") };
            assert_eq!(headers[CONTENT_TYPE], "application/json", "the signed body is sent");
            assert!(!format!("{headers:?}").contains("aws-"), "{headers:?}");
            headers["authorization"].to_str().unwrap().to_owned()
        };
        assert!(signature(b"{}").starts_with("AWS4-HMAC-SHA256 Credential=AKID/"));
        assert_ne!(signature(b"{}"), signature(b"[]"), "the body is signed");
        let said = "aws-secret and aws-token are wrong".to_owned();
        let transport = Transport::new(
            "aws",
            Timeouts::for_url(&request.url, false),
            RetryPolicy::default(),
            BTreeMap::new(),
        );
        assert_eq!(
            transport.without_key(&request, said),
            "[redacted:api-key] and [redacted:api-key] are wrong"
        );
    }

    #[test]
    fn an_error_inside_an_answer_does_not_show_the_key() {
        let mut endpoint = crate::Endpoint::new("p", "http://127.0.0.1:1", "m");
        endpoint.api_key = crate::ApiKey::new("sk-secret");
        let protocol = crate::protocol::Protocols::default().get("openai-completions").unwrap();
        let request = protocol.encode(&endpoint, &crate::Request::default()).unwrap();
        let transport = Transport::new(
            "p",
            Timeouts::for_url(&request.url, false),
            RetryPolicy::default(),
            BTreeMap::new(),
        );
        let mut decoder = protocol.decoder(&endpoint, crate::AssistantMessage::empty("a", "p", "m"));
        let events = decoder.feed_whole(&serde_json::json!({ "error": { "message": "bad key sk-secret" } }));
        let event = events.into_iter().next_back().unwrap();
        let exchange = Exchange { request: &request, id: Some("req_1") };
        let StreamEvent::Error { message } = transport.redact_event(exchange, event) else {
            panic!("it is an error")
        };
        let error = message.error_message.clone().unwrap();
        expect_test::expect!["the provider reported an error: bad key [redacted:api-key] (request id req_1)"]
            .assert_eq(&error);
        let again = transport.redact_event(exchange, StreamEvent::Error { message });
        let StreamEvent::Error { message } = again else { panic!("it is an error") };
        assert_eq!(message.error_message.as_ref(), Some(&error), "one id appears once");
        assert_eq!(transport.redact_event(exchange, StreamEvent::Start), StreamEvent::Start);
    }

    #[test]
    fn failures_have_their_kind() {
        assert_eq!(not_sent_kind(true, true), ErrorKind::Network, "no connection in time");
        assert_eq!(not_sent_kind(true, false), ErrorKind::Timeout);
        assert_eq!(not_sent_kind(false, true), ErrorKind::Network);
        let google =
            r#"{"error": {"status": "INVALID_ARGUMENT", "details": [{"reason": "API_KEY_INVALID"}]}}"#;
        for (status, body, expected) in [
            (StatusCode::BAD_REQUEST, google, ErrorKind::Authentication),
            (StatusCode::BAD_REQUEST, "no", ErrorKind::Provider),
            (StatusCode::FORBIDDEN, "", ErrorKind::Authentication),
            (StatusCode::FORBIDDEN, "usage limit reached", ErrorKind::RateLimit),
            (StatusCode::REQUEST_TIMEOUT, "", ErrorKind::Unavailable),
            (StatusCode::CONFLICT, "", ErrorKind::Unavailable),
            (StatusCode::BAD_GATEWAY, "", ErrorKind::Unavailable),
            (StatusCode::TOO_MANY_REQUESTS, "", ErrorKind::RateLimit),
        ] {
            assert_eq!(answer_kind(status, body), expected, "{status} {body}");
        }
        assert!(is_bad_key(StatusCode::BAD_REQUEST, google), "another key is tried");
    }

    #[test]
    fn addresses_are_shown_without_user_info_and_query() {
        assert_eq!(shown("http://me:pw@host:80/v1/chat?key=k#x"), "http://host:80/v1/chat");
        assert_eq!(shown("https://host/@cf/a"), "https://host/@cf/a");
        assert_eq!(shown("me:pw?key=k"), "me:pw");
        let words = [404, 529, 599].map(|it| status_words(StatusCode::from_u16(it).unwrap()));
        assert_eq!(words, ["404 Not Found", "529 (overloaded)", "599"]);
    }

    #[test]
    fn error_messages_are_extracted() {
        for body in [
            r#"{"error": {"message": "no"}}"#,
            r#"[{"error": {"message": "no"}}]"#,
            r#"{"error": "no"}"#,
            r#"{"message": "no"}"#,
            r#"{"detail": " no "}"#,
        ] {
            let body = serde_json::from_str(body).unwrap();
            assert_eq!(error_message(&body, 400).as_deref(), Some("no"), "{body}");
        }
        assert_eq!(error_message(&serde_json::json!([]), 400), None);
    }

    #[test]
    fn error_pages_become_one_line() {
        let page = "<html>\n<head><title>502 Bad Gateway</title></head><body>\n<h1>nginx</h1></body></html>";
        assert_eq!(excerpt(page), "502 Bad Gateway nginx");
        assert_eq!(excerpt("a < b\nc"), "a < b c");
        assert_eq!(excerpt(&"é".repeat(400)).chars().count(), 301);
    }
}
