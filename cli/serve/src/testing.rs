//! For tests: requests without connections.

use std::sync::Arc;

use axum::Router;
use axum::body::{self, Body};
use axum::extract::Request;
use axum::http::header;
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;

use crate::api;
use crate::http::{ServerOptions, Shared};
use crate::service::Service;

/// Answers requests one after the other. Who may ask is not checked.
pub struct Requests {
    runtime: Runtime,
    router: TowerToHyperService<Router>,
}

impl Requests {
    /// Has this service answer.
    ///
    /// # Panics
    /// Where the system gives no threads.
    pub fn new(service: Arc<Service>) -> Requests {
        let runtime = Builder::new_current_thread().enable_all().build().expect("a thread");
        let shared = Shared::new(ServerOptions::default(), true, watch::channel(false).1);
        shared.set_service(service);
        Requests { runtime, router: TowerToHyperService::new(api::router(Arc::new(shared))) }
    }

    /// The status and the body of the response to a `POST` of JSON.
    ///
    /// # Panics
    /// Where the path is none.
    pub fn post(&self, path: &str, body: &[u8]) -> (u16, Vec<u8>) {
        let request = Request::post(path).header(header::CONTENT_TYPE, "application/json");
        let request = request.body(Body::from(body.to_vec())).expect("a path");
        self.runtime.block_on(async {
            let Ok(response) = self.router.call(request).await;
            let status = response.status().as_u16();
            let bytes = body::to_bytes(response.into_body(), usize::MAX).await.expect("a body in memory");
            (status, bytes.to_vec())
        })
    }
}
