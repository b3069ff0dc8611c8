//! `talaria login` and `talaria logout`.

use talaria_openapi::auth::Whoami;

use crate::account::{Account, read_key};
use crate::args::Args;
use crate::client::Client;
use crate::error::{Error, Result};
use crate::local_server::LocalServer;
use crate::render;

/// Keeps a server and a key, once the server has taken the key.
pub(crate) async fn login(args: &Args, server: Option<String>, key: &str) -> Result<()> {
    if key.starts_with("http://") || key.starts_with("https://") {
        return Err(Error::Local(format!(
            "{key} is an address: write `talaria login {key} --key`"
        )));
    }
    let local = LocalServer::new(args.home.clone())?;
    let url = server.or_else(|| args.url.clone());
    let address = match &url {
        Some(url) => url.clone(),
        None => local.ensure().await?.url(),
    };
    // Before the key is asked for: an address that is none is told at once.
    let nobody = Client::new(&address, None, None)?;
    if nobody.sends_in_clear() {
        render::notice("this address is not encrypted: who sees the traffic sees the key. Prefer https://");
    }
    let key = read_key(key)?;
    let who = Client::new(&address, Some(key.clone()), args.profile.clone())?
        .whoami()
        .await?;
    let account = Account { url, key };
    account.save(&local.home)?;
    render::notice(&welcome(&address, &who));
    if args.token.is_some() {
        render::notice("TALARIA_TOKEN is set, and goes before this key");
    }
    Ok(())
}

/// Forgets server and key.
pub(crate) fn logout(args: &Args) -> Result<()> {
    let local = LocalServer::new(args.home.clone())?;
    let text = if Account::forget(&local.home)? {
        "logged out: `talaria` uses the server on this host again"
    } else {
        "nobody is logged in"
    };
    render::notice(text);
    Ok(())
}

fn welcome(address: &str, who: &Whoami) -> String {
    let until = who.expires_at.map_or_else(String::new, |at| format!(", until {at}"));
    let scopes: Vec<&str> = who.scopes.iter().map(|scope| scope.as_str()).collect();
    format!(
        "logged in at {address} as {}{until}; may do: {}",
        who.principal,
        scopes.join(", ")
    )
}
