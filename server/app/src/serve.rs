//! Accepts connections and hands them to the router; ends when it is told to.

use std::time::Duration;

use axum::Router;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use talaria_domain::scope::TaskScope;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Longest request head, and read buffer of a connection.
const MAX_HEAD_BYTES: usize = 64 * 1024;
/// How long a client may take to send a request's head.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// How long open connections may take to end.
const CLOSE_PATIENCE: Duration = Duration::from_secs(5);
/// Pause after an accept that failed, for example because all file descriptors are taken.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Serves until `stop`, then lets open connections end.
pub(crate) async fn serve(listener: TcpListener, router: Router, scope: TaskScope, stop: CancellationToken) {
    let graceful = GracefulShutdown::new();
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(error = %error, "a connection was not accepted: {error}");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        // Tokens are small packets: waiting to fill one would delay each.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(error = %error, "a connection keeps Nagle's algorithm: {error}");
        }
        let mut builder = Builder::new(TokioExecutor::new());
        builder
            .http1()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_TIMEOUT)
            .max_buf_size(MAX_HEAD_BYTES);
        let service = TowerToHyperService::new(router.clone());
        let connection = graceful.watch(builder.serve_connection(TokioIo::new(stream), service).into_owned());
        scope.spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(error = %error, "a connection ended: {error}");
            }
        });
    }
    drop(listener);
    drop(tokio::time::timeout(CLOSE_PATIENCE, graceful.shutdown()).await);
}

/// Waits for SIGTERM or SIGINT.
pub(crate) async fn until_signal() {
    match (signal(SignalKind::terminate()), signal(SignalKind::interrupt())) {
        (Ok(mut terminate), Ok(mut interrupt)) => {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
        }
        (Err(error), _) | (_, Err(error)) => {
            tracing::error!(error = %error, "signals can't be waited for, so only SIGKILL stops the server: {error}");
            std::future::pending::<()>().await;
        }
    }
}
