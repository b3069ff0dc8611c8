//! Requests to one server; [`calls`] are the API, one method a call.

mod calls;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use reqwest::{Method, RequestBuilder, Response};
use serde::Serialize;
use serde::de::DeserializeOwned;
use talaria_text::cut::one_line;

use crate::error::{Error, Result};
use crate::local_server::{LocalServer, ServerFile};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Longer than any wait that can be asked for, and than several heartbeats of a stream: silence beyond it is a dead peer.
const READ_TIMEOUT: Duration = Duration::from_secs(90);
/// Longest passage of an answer that isn't ours, in cells.
const MAX_SAID: usize = 200;

/// Where the server is.
struct Place {
    base_url: Mutex<Arc<str>>,
    /// The home of a server on this host: after a restart it may be elsewhere.
    home: Option<LocalServer>,
}

/// Speaks to one server as one credential in one profile. Cheap to clone.
#[derive(Clone)]
pub struct Client {
    http: reqwest::Client,
    place: Arc<Place>,
    token: Option<Arc<str>>,
    profile: Option<Arc<str>>,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client")
            .field("base_url", &self.base_url())
            .finish_non_exhaustive()
    }
}

impl Client {
    /// A client of the server at `base_url`, such as `http://127.0.0.1:8640`.
    pub fn new(base_url: &str, token: Option<String>, profile: Option<String>) -> Result<Self> {
        let address = address(base_url)?;
        // Fails when another part of the program was first, which is as good.
        drop(rustls::crypto::ring::default_provider().install_default());
        let mut builder = reqwest::Client::builder();
        if is_this_host(&address) {
            // A proxy of the environment must not get what is meant for this host.
            builder = builder.no_proxy();
        }
        let http = builder
            .connect_timeout(CONNECT_TIMEOUT)
            .read_timeout(READ_TIMEOUT)
            .redirect(reqwest::redirect::Policy::none())
            .tcp_nodelay(true)
            .user_agent(concat!("talaria-cli/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|error| Error::Local(format!("the HTTP client can't start: {error}")))?;
        let place = Place {
            base_url: Mutex::new(base_url.trim_end_matches('/').into()),
            home: None,
        };
        Ok(Self {
            http,
            place: Arc::new(place),
            token: token.map(Into::into),
            profile: profile.map(Into::into),
        })
    }

    /// A client of the server of a home, which follows it when it moves.
    pub(crate) fn of_home(
        home: LocalServer,
        server: &ServerFile,
        token: Option<String>,
        profile: Option<String>,
    ) -> Result<Self> {
        let client = Self::new(&server.url(), token, profile)?;
        let place = Place {
            base_url: Mutex::new(client.base_url()),
            home: Some(home),
        };
        Ok(Self {
            place: Arc::new(place),
            ..client
        })
    }

    fn base_url(&self) -> Arc<str> {
        let url = self.place.base_url.lock();
        // Nothing can panic while it is held.
        Arc::clone(&url.unwrap_or_else(PoisonError::into_inner))
    }

    /// Finds the server of a home again. Where it is no longer, a stranger may listen by now, who must not get the credential.
    pub(crate) async fn look_again(&self) -> Result<()> {
        let Some(home) = &self.place.home else {
            return Ok(());
        };
        let Some(server) = home.find().await else {
            return Err(Error::Unreachable {
                url: self.base_url().to_string(),
                reason: "the server of this home doesn't run".to_owned(),
            });
        };
        *self.place.base_url.lock().unwrap_or_else(PoisonError::into_inner) = server.url().into();
        Ok(())
    }

    /// Finds the server of a home again, or starts it.
    pub(crate) async fn wake(&self) -> Result<()> {
        if let Some(home) = &self.place.home {
            home.ensure().await?;
        }
        self.look_again().await
    }

    /// Whether others can read what is sent.
    pub(crate) fn sends_in_clear(&self) -> bool {
        address(&self.base_url()).is_ok_and(|address| address.scheme() == "http" && !is_this_host(&address))
    }

    /// A request with credential and profile.
    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let mut request = self.http.request(method, format!("{}{path}", self.base_url()));
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
        if let Some(profile) = &self.profile {
            request = request.header("x-talaria-profile", &**profile);
        }
        request
    }

    /// Sends a request; any answer but success is an error (redirects are not followed: they would carry the credential).
    pub async fn send(&self, request: RequestBuilder) -> Result<Response> {
        let response = request.send().await.map_err(|error| self.unreachable(&error))?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let body = response.bytes().await.map_err(|error| self.unreachable(&error))?;
        match serde_json::from_slice(&body) {
            Ok(problem) => Err(Error::Problem(Box::new(problem))),
            // A proxy's answer for a server that is away.
            Err(_) if status.is_server_error() => Err(Error::Unreachable {
                url: self.base_url().to_string(),
                reason: format!("something in between answers {status}"),
            }),
            // A code of a later version, or a gate in front of the server.
            Err(_) => Err(Error::Refused {
                status: status.as_u16(),
                text: said(&body),
            }),
        }
    }

    pub(crate) fn unreachable(&self, error: &reqwest::Error) -> Error {
        let mut reason = error.to_string();
        let mut cause = std::error::Error::source(error);
        while let Some(error) = cause {
            reason = error.to_string();
            cause = error.source();
        }
        Error::Unreachable {
            url: self.base_url().to_string(),
            reason,
        }
    }

    pub(super) async fn call<T: DeserializeOwned>(&self, request: RequestBuilder) -> Result<T> {
        let body = self
            .send(request)
            .await?
            .bytes()
            .await
            .map_err(|error| self.unreachable(&error))?;
        serde_json::from_slice(&body).map_err(|error| Error::Protocol(error.to_string()))
    }

    pub(super) async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        self.call(self.request(Method::GET, path)).await
    }

    pub(super) async fn post<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<T> {
        self.call(self.request(Method::POST, path).json(body)).await
    }
}

fn address(base_url: &str) -> Result<reqwest::Url> {
    let address = reqwest::Url::parse(base_url).ok();
    address
        .filter(|address| ["http", "https"].contains(&address.scheme()) && address.has_host())
        .ok_or_else(|| {
            Error::Local(format!(
                "`{base_url}` is no address of a server: write https://HOST or http://HOST:PORT"
            ))
        })
}

fn is_this_host(address: &reqwest::Url) -> bool {
    let host = address.host_str().unwrap_or_default();
    let ip = host.trim_matches(['[', ']']).parse::<std::net::IpAddr>();
    host == "localhost" || ip.is_ok_and(|ip| ip.is_loopback())
}

/// What an answer without a problem document says, in a line.
fn said(body: &[u8]) -> String {
    let value: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
    let texts = ["title", "detail"].map(|field| value.get(field).and_then(serde_json::Value::as_str));
    let text = texts.into_iter().flatten().collect::<Vec<_>>().join(": ");
    if !text.is_empty() {
        return text;
    }
    match one_line(&String::from_utf8_lossy(body), MAX_SAID) {
        text if text.is_empty() => "without a word".to_owned(),
        text => text,
    }
}
