//! The HTTP proxy of confined commands: their only way to the network.
//!
//! It tunnels `CONNECT` and forwards plain HTTP. A [`HostGate`] permits each host. The proxy connects only to
//! the addresses that it checked: none in a private network, unless the user's rules name the host.

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{HOST, HeaderName, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, Uri};
use hyper_util::rt::{TokioIo, TokioTimer};
use policy::HostPermit;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Time to connect to a host, after its permission.
const CONNECT: Duration = Duration::from_secs(30);
/// Maximum number of a command's connections.
const MAX_CONNECTIONS: usize = 256;

/// Marks the proxy's own responses; it has the reason.
const ERROR: &str = "x-proxy-error";
/// Headers between a client and its proxy.
const HOP: [&str; 3] = ["proxy-connection", "proxy-authorization", "keep-alive"];

type Body = BoxBody<Bytes, hyper::Error>;

/// Decides which hosts a command may connect to.
pub trait HostGate: Send + Sync {
    /// Permits a connection, or returns the reason why not. May wait for the user.
    fn permit<'a>(&'a self, host: &'a str, port: u16) -> BoxFuture<'a, Result<HostPermit, String>>;

    /// Records that the proxy refused a permitted host.
    fn refused(&self, host: &str, port: u16, reason: &str);
}

impl std::fmt::Debug for dyn HostGate {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("HostGate")
    }
}

/// Serves a command's connections until `end` fires.
pub(crate) async fn serve(listener: TcpListener, gate: Arc<dyn HostGate>, end: CancellationToken) {
    let connections = TaskTracker::new();
    loop {
        // Cancel safety: connections not accepted here wait in the system's queue.
        let accepted = tokio::select! {
            () = end.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        let Ok((stream, _)) = accepted.inspect_err(|error| tracing::warn!(%error, "the proxy ends")) else {
            return;
        };
        if connections.len() >= MAX_CONNECTIONS {
            continue;
        }
        let (gate, end, tunnels) = (Arc::clone(&gate), end.clone(), connections.clone());
        connections.spawn(async move {
            let (closing, tasks) = (end.clone(), tunnels.clone());
            let service = service_fn(move |request| {
                respond(Arc::clone(&gate), request, closing.clone(), tasks.clone())
            });
            let mut http = hyper::server::conn::http1::Builder::new();
            http.timer(TokioTimer::new()).preserve_header_case(true);
            let served = http.serve_connection(TokioIo::new(stream), service).with_upgrades();
            tokio::select! {
                () = end.cancelled() => {}
                served = served => if let Err(error) = served {
                    tracing::debug!(%error, "a connection of the proxy ended");
                },
            }
        });
    }
}

async fn respond(
    gate: Arc<dyn HostGate>,
    request: Request<Incoming>,
    end: CancellationToken,
    tasks: TaskTracker,
) -> Result<Response<Body>, Infallible> {
    let response = if request.method() == Method::CONNECT {
        tunnel(&*gate, request, end, &tasks).await
    } else {
        forward(&*gate, request, end, &tasks).await
    };
    Ok(response.unwrap_or_else(|(status, reason)| {
        let whole = |text: String| Full::new(Bytes::from(text)).map_err(|never| match never {}).boxed();
        let mut response = Response::new(whole(format!("{reason}\n")));
        *response.status_mut() = status;
        let reason = HeaderValue::from_str(&reason).unwrap_or(HeaderValue::from_static("denied"));
        response.headers_mut().insert(ERROR, reason);
        response
    }))
}

type Refused = (StatusCode, String);

async fn tunnel(
    gate: &dyn HostGate,
    request: Request<Incoming>,
    end: CancellationToken,
    tasks: &TaskTracker,
) -> Result<Response<Body>, Refused> {
    let mut stream = connect(gate, request.uri(), 443).await?;
    tasks.spawn(async move {
        let copied = async {
            let upgraded = hyper::upgrade::on(request).await.map_err(std::io::Error::other)?;
            tokio::io::copy_bidirectional(&mut TokioIo::new(upgraded), &mut stream).await
        };
        tokio::select! {
            () = end.cancelled() => {}
            copied = copied => if let Err(error) = copied {
                tracing::debug!(%error, "a tunnel of the proxy ended");
            },
        }
    });
    Ok(Response::new(Full::default().map_err(|never| match never {}).boxed()))
}

async fn forward(
    gate: &dyn HostGate,
    mut request: Request<Incoming>,
    end: CancellationToken,
    tasks: &TaskTracker,
) -> Result<Response<Body>, Refused> {
    if request.uri().scheme_str() != Some("http") {
        return Err((StatusCode::BAD_REQUEST, "this is a proxy for http: URLs and CONNECT".to_owned()));
    }
    let stream = connect(gate, request.uri(), 80).await?;
    let failed = |error: hyper::Error| (StatusCode::BAD_GATEWAY, error.to_string());
    // The host that was permitted, whatever the client writes.
    let authority = request.uri().authority().map_or("", |it| it.as_str());
    let host = authority.rsplit('@').next().unwrap_or_default();
    let host = HeaderValue::from_str(host).map_err(|error| (StatusCode::BAD_REQUEST, error.to_string()))?;
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str()).to_owned();
    *request.uri_mut() = path.parse::<Uri>().map_err(|error| (StatusCode::BAD_REQUEST, error.to_string()))?;
    HOP.iter().for_each(|name| drop(request.headers_mut().remove(HeaderName::from_static(name))));
    request.headers_mut().insert(HOST, host);
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(failed)?;
    tasks.spawn(async move {
        tokio::select! {
            () = end.cancelled() => {}
            ended = connection => if let Err(error) = ended {
                tracing::debug!(%error, "a forwarded connection ended");
            },
        }
    });
    Ok(sender.send_request(request).await.map_err(failed)?.map(BodyExt::boxed))
}

/// Connects to the host of `uri` at one of the addresses that are allowed.
async fn connect(gate: &dyn HostGate, uri: &Uri, default_port: u16) -> Result<TcpStream, Refused> {
    let authority =
        uri.authority().ok_or_else(|| (StatusCode::BAD_REQUEST, "no host is named".to_owned()))?;
    let host = authority.host().trim_start_matches('[').trim_end_matches(']');
    let port = authority.port_u16().unwrap_or(default_port);
    // The name is judged before it is resolved: a resolver would pass it on.
    let permit = gate.permit(host, port).await.map_err(|reason| (StatusCode::FORBIDDEN, reason))?;
    let unreachable = |error: &dyn std::fmt::Display| (StatusCode::BAD_GATEWAY, format!("{host}: {error}"));
    let work = async {
        let found = tokio::net::lookup_host((host, port)).await.map_err(|error| unreachable(&error))?;
        let (private, public): (Vec<SocketAddr>, Vec<SocketAddr>) =
            found.partition(|address| is_private(address.ip()));
        let allowed = if permit.private { [public, private].concat() } else { public };
        if allowed.is_empty() {
            let reason =
                format!("it is in a private network; only a rule `allow http {host}:{port}` allows it");
            gate.refused(host, port, &reason);
            return Err((StatusCode::FORBIDDEN, reason));
        }
        TcpStream::connect(allowed.as_slice()).await.map_err(|error| unreachable(&error))
    };
    tokio::time::timeout(CONNECT, work).await.unwrap_or_else(|_| Err(unreachable(&"no answer")))
}

/// Whether the address is of this machine, of a local network, or of none.
fn is_private(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(it) => {
            let [first, second, third, _] = it.octets();
            it.is_private()
                || it.is_loopback()
                || it.is_link_local()
                || first == 0
                || first >= 224
                || first == 100 && (64..128).contains(&second)
                || first == 192 && second == 0 && third == 0
        }
        IpAddr::V6(it) => {
            let segments = it.segments();
            let embedded = match segments {
                // Addresses of IPv4: mapped, compatible, translated, and 6to4.
                [0, 0, 0, 0, 0, 0xffff | 0, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
                    Some((high, low))
                }
                [0x2002, high, low, ..] => Some((high, low)),
                _ => None,
            };
            let bits = |(high, low): (u16, u16)| u32::from(high) << 16 | u32::from(low);
            embedded.is_some_and(|it| is_private(IpAddr::V4(bits(it).into())))
                || it.is_unique_local()
                || it.is_unicast_link_local()
                || it.is_multicast()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Permit;

    impl HostGate for Permit {
        fn permit<'a>(&'a self, _: &'a str, _: u16) -> BoxFuture<'a, Result<HostPermit, String>> {
            Box::pin(async { Ok(HostPermit { private: true }) })
        }

        fn refused(&self, _: &str, _: u16, _: &str) {}
    }

    #[tokio::test]
    async fn a_server_gets_only_the_permitted_host() {
        use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
        let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let host = server.local_addr().unwrap();
        let mut client = TcpStream::connect(proxy.local_addr().unwrap()).await.unwrap();
        let end = CancellationToken::new();
        let serving = tokio::spawn(serve(proxy, Arc::new(Permit), end.clone()));
        let request = format!("GET http://{host}/ HTTP/1.1\r\nHost: {host}\r\nHost: other\r\n\r\n");
        client.write_all(request.as_bytes()).await.unwrap();
        let (stream, _) = server.accept().await.unwrap();
        let mut lines = BufReader::new(stream).lines();
        let mut hosts = Vec::new();
        while let Some(line) = lines.next_line().await.unwrap().filter(|line| !line.is_empty()) {
            hosts.extend(line.to_lowercase().strip_prefix("host: ").map(str::to_owned));
        }
        assert_eq!(hosts, [host.to_string()]);
        end.cancel();
        serving.await.unwrap();
    }

    #[test]
    fn addresses_of_local_networks_are_private() {
        let private = [
            "127.0.0.1",
            "10.1.2.3",
            "172.16.0.1",
            "192.168.1.1",
            "169.254.169.254",
            "0.0.0.0",
            "100.64.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "::1",
            "::",
            "fd00::1",
            "fe80::1",
            "ff02::1",
            "::ffff:10.0.0.1",
            "64:ff9b::a00:1",
            "2002:7f00:1::",
        ];
        for address in private {
            assert!(is_private(address.parse().unwrap()), "{address}");
        }
        for address in
            ["1.1.1.1", "172.32.0.1", "100.128.0.1", "203.0.113.80", "2606:4700::1", "::ffff:8.8.8.8"]
        {
            assert!(!is_private(address.parse().unwrap()), "{address}");
        }
    }
}
