//! A server: it listens, and each connection is served until it ends or waits for too long. All of that has one thread, which
//! never waits for the model.

use std::any::Any;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use axum::Router;
use axum::response::IntoResponse as _;
use futures_util::future::{Either, select};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::runtime::Runtime;
use tokio::sync::{Semaphore, watch};
use tower_http::catch_panic::CatchPanicLayer;

use super::error::ApiError;
use super::socket::MAX_SOCKETS;
use super::{ServerOptions, Shared, guard};
use crate::api;
use crate::service::Service;

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// At an address of this machine; port 0 is any that is free.
    Tcp(SocketAddr),
    /// At a UNIX socket: a file, which only this user may open.
    Unix(PathBuf),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Address::Tcp(address) => write!(f, "http://{address}"),
            Address::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// Why there is no server.
#[derive(Debug, Error)]
pub enum ServerError {
    /// The address cannot be had.
    #[error("cannot listen on {address}: {error}")]
    Bind {
        /// The address.
        address: Address,
        /// What is wrong.
        error: io::Error,
    },
    /// Others can reach the address, and everybody may ask.
    #[error("others can reach {0}, but the server has no key")]
    NoKey(Address),
    /// The system gives no thread.
    #[error("the system gives no thread for connections: {0}")]
    Thread(#[source] io::Error),
}

/// A server that answers. Until it has a service, it says that the model is being loaded.
pub struct Server {
    address: Address,
    shared: Arc<Shared>,
    /// Told when the server ends.
    end: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

enum Listener {
    Tcp(tokio::net::TcpListener),
    #[cfg(unix)]
    Unix(tokio::net::UnixListener),
}

/// What goes both ways.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

impl Server {
    /// Listens. Nothing is answered but that the model is being loaded.
    ///
    /// # Errors
    /// Where the address cannot be had, or others can reach it and there is no key.
    pub fn start(address: &Address, options: ServerOptions) -> Result<Server, ServerError> {
        let is_local = match address {
            Address::Tcp(address) => address.ip().is_loopback(),
            Address::Unix(_) => true,
        };
        if !is_local && options.keys.is_empty() {
            return Err(ServerError::NoKey(address.clone()));
        }
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().max_blocking_threads(BACKGROUND_THREADS).build();
        let runtime = runtime.map_err(ServerError::Thread)?;
        let cannot = |error| ServerError::Bind { address: address.clone(), error };
        let (listener, address) = Listener::bind(&runtime, address).map_err(cannot)?;
        let (end, ended) = watch::channel(false);
        let shared = Arc::new(Shared::new(options, is_local, ended));
        let served = shared.clone();
        let serve = move || runtime.block_on(serve(listener, served));
        let thread = thread::Builder::new().name("connections".to_owned()).spawn(serve);
        let thread = Some(thread.map_err(ServerError::Thread)?);
        Ok(Server { address, shared, end, thread })
    }

    /// Where it listens: with the port that it has found, where it was told to find one.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// From now on requests are answered.
    pub fn set_service(&self, service: Arc<Service>) {
        self.shared.set_service(service);
    }

    /// Ends: no request is taken any more, those at work are stopped, and their clients are told. Returns when all of them
    /// have ended, or after so long.
    pub fn stop(mut self, patience: Duration) {
        if let Some(service) = self.shared.service.get() {
            service.close(patience);
        }
        self.end.send_replace(true);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        if let Address::Unix(path) = &self.address {
            let _ = std::fs::remove_file(path);
        }
    }
}

impl Listener {
    fn bind(runtime: &Runtime, address: &Address) -> io::Result<(Listener, Address)> {
        let _guard = runtime.enter();
        match address {
            Address::Tcp(address) => {
                let listener = std::net::TcpListener::bind(address)?;
                listener.set_nonblocking(true)?;
                let address = Address::Tcp(listener.local_addr()?);
                Ok((Listener::Tcp(tokio::net::TcpListener::from_std(listener)?), address))
            }
            #[cfg(unix)]
            Address::Unix(path) => Ok((Listener::Unix(private_socket(path)?), address.clone())),
            #[cfg(not(unix))]
            Address::Unix(_) => {
                Err(io::Error::new(io::ErrorKind::Unsupported, "this system has no UNIX sockets"))
            }
        }
    }

    async fn accept(&self) -> io::Result<Box<dyn Stream>> {
        match self {
            Listener::Tcp(listener) => {
                let (stream, _) = listener.accept().await?;
                stream.set_nodelay(true)?;
                Ok(Box::new(stream))
            }
            #[cfg(unix)]
            Listener::Unix(listener) => Ok(Box::new(listener.accept().await?.0)),
        }
    }
}

/// A socket that only this user may open. One that a server has left behind is replaced.
#[cfg(unix)]
fn private_socket(path: &std::path::Path) -> io::Result<tokio::net::UnixListener> {
    use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
    use std::os::unix::net::{UnixListener, UnixStream};
    if let Ok(found) = std::fs::symlink_metadata(path) {
        let left_behind =
            || UnixStream::connect(path).is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused);
        if !found.file_type().is_socket() || !left_behind() {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        std::fs::remove_file(path)?;
    }
    // Under its own name it never is for others.
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{:016x}", crate::random()));
    let listener = UnixListener::bind(&name)?;
    let private = std::fs::set_permissions(&name, std::fs::Permissions::from_mode(0o600));
    private.and_then(|()| std::fs::rename(&name, path)).inspect_err(|_| _ = std::fs::remove_file(&name))?;
    listener.set_nonblocking(true)?;
    tokio::net::UnixListener::from_std(listener)
}

/// Threads that render and tokenise texts and convert documents. Each computes all the time.
const BACKGROUND_THREADS: usize = 8;
/// How long a connection has to end after the server has.
const FAREWELL: Duration = Duration::from_secs(2);
/// How long to wait after an error before the next connection is accepted: where files run out, for example.
const PAUSE: Duration = Duration::from_millis(100);

/// Serves connections until the end.
async fn serve(listener: Listener, shared: Arc<Shared>) {
    let router = with_layers(api::router(shared.clone()), &shared);
    let places = Arc::new(Semaphore::new(shared.options.max_connections));
    let mut end = pin!(shared.ended());
    loop {
        let accepted = pin!(async {
            let place = places.clone().acquire_owned().await;
            (listener.accept().await, place)
        });
        let Either::Left(((stream, place), _)) = select(accepted, end.as_mut()).await else { break };
        let Ok(stream) = stream else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let service = TowerToHyperService::new(router.clone());
        let shared = shared.clone();
        tokio::spawn(async move {
            let mut http = http1::Builder::new();
            http.timer(TokioTimer::new()).header_read_timeout(shared.options.patience);
            let connection = http.serve_connection(TokioIo::new(stream), service);
            let mut connection = pin!(connection.with_upgrades());
            let end = pin!(shared.ended());
            if let Either::Right(_) = select(connection.as_mut(), end).await {
                connection.as_mut().graceful_shutdown();
                let _ = tokio::time::timeout(FAREWELL, connection).await;
            }
            drop(place);
        });
    }
    // Those that are left have said their last word by then.
    let last = async {
        let all = u32::try_from(shared.options.max_connections).unwrap_or(u32::MAX);
        let _ = places.acquire_many(all).await;
        let _ = shared.sockets.acquire_many(MAX_SOCKETS as u32).await;
    };
    let _ = tokio::time::timeout(FAREWELL, last).await;
}

/// What all requests go through: who may ask, and what is answered where the server fails. What went wrong is printed where it
/// happened.
fn with_layers(router: Router, shared: &Arc<Shared>) -> Router {
    let guard = axum::middleware::from_fn_with_state(shared.clone(), guard::check);
    let lost = |_: Box<dyn Any + Send>| ApiError::lost().into_response();
    router.layer(guard).layer(CatchPanicLayer::custom(lost))
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::extract::Request;
    use axum::http::header;
    use axum::routing::get;
    use hyper::service::Service as _;

    use super::*;

    async fn fails() -> &'static str {
        panic!("the test does this")
    }

    #[test]
    fn a_request_at_which_the_server_fails_is_answered() {
        let (_end, ended) = watch::channel(false);
        let shared = Arc::new(Shared::new(ServerOptions::default(), true, ended));
        let router = with_layers(Router::new().route("/", get(fails)), &shared);
        let request = Request::get("/").header(header::HOST, "localhost").body(Body::empty());
        let answered = TowerToHyperService::new(router).call(request.expect("a request"));
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let Ok(response) = runtime.block_on(answered);
        assert_eq!(response.status(), 500);
    }
}
