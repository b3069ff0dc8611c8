//! The one file that builds the HTTP client of this crate.

use std::sync::OnceLock;
use std::time::Duration;

use reqwest::Client;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The client, built at the first use: reading the system's certificates takes time that a start needn't wait for. It finds
/// them on the system's well-known paths by itself, `SSL_CERT_FILE` and `SSL_CERT_DIR` first.
pub(crate) fn client() -> Result<Client, String> {
    static CLIENT: OnceLock<Result<Client, String>> = OnceLock::new();
    CLIENT.get_or_init(build).clone()
}

fn build() -> Result<Client, String> {
    // Fails when another part of the program was first, which is as good.
    drop(rustls::crypto::ring::default_provider().install_default());
    Client::builder()
        .connect_timeout(CONNECT_TIMEOUT)
        .redirect(reqwest::redirect::Policy::none())
        .tcp_nodelay(true)
        .user_agent(concat!("talaria/", env!("CARGO_PKG_VERSION")))
        .build()
        .map_err(|error| error.to_string())
}
