//! The one file that builds the HTTP client of this crate.

use std::sync::OnceLock;
use std::time::Duration;

use reqwest::Client;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The client for an address, built at the first use: reading the system's certificates takes time that a start needn't wait
/// for. It finds them on the system's well-known paths by itself, `SSL_CERT_FILE` and `SSL_CERT_DIR` first. What is on this
/// host is asked directly, whatever proxy the environment names: a proxy couldn't reach it, and would learn what is said.
pub(crate) fn client_for(base_url: &str) -> Result<Client, String> {
    static DIRECT: OnceLock<Result<Client, String>> = OnceLock::new();
    static OUTSIDE: OnceLock<Result<Client, String>> = OnceLock::new();
    let (cell, is_direct) = if is_loopback(base_url) {
        (&DIRECT, true)
    } else {
        (&OUTSIDE, false)
    };
    cell.get_or_init(|| build(is_direct)).clone()
}

/// Whether an address is on this host, by how it is written: no name is looked up.
pub(crate) fn is_loopback(base_url: &str) -> bool {
    let Ok(url) = reqwest::Url::parse(base_url) else {
        return false;
    };
    match url.host_str() {
        Some(host) if host.eq_ignore_ascii_case("localhost") => true,
        Some(host) => host
            .trim_start_matches('[')
            .trim_end_matches(']')
            .parse()
            .is_ok_and(|ip: std::net::IpAddr| ip.to_canonical().is_loopback()),
        None => false,
    }
}

fn build(is_direct: bool) -> Result<Client, String> {
    // Fails when another part of the program was first, which is as good.
    drop(rustls::crypto::ring::default_provider().install_default());
    let builder = Client::builder()
        .connect_timeout(CONNECT_TIMEOUT)
        // A redirect would carry the key to another host.
        .redirect(reqwest::redirect::Policy::none())
        .tcp_nodelay(true)
        .user_agent(concat!("talaria/", env!("CARGO_PKG_VERSION")));
    let builder = if is_direct { builder.no_proxy() } else { builder };
    builder.build().map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_host_is_asked_directly() {
        for url in [
            "http://127.0.0.1:8081/v1",
            "http://localhost/v1",
            "http://[::1]:1/v1",
            "http://127.9.9.9",
            "http://[::ffff:127.0.0.1]/v1",
        ] {
            assert!(is_loopback(url), "{url}");
        }
        for url in [
            "https://api.openai.com/v1",
            "http://localhost.evil.example",
            "http://10.0.0.1",
            "nonsense",
        ] {
            assert!(!is_loopback(url), "{url}");
        }
    }
}
