//! The key that signs tokens: made at the first start, kept in the database, sealed with the master key.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ed25519_dalek::pkcs8::EncodePrivateKey as _;
use sha2::{Digest as _, Sha256};
use talaria_http::SigningKey;
use talaria_store::{SealedKey, Store};

use crate::sealing;

const PURPOSE: &[u8] = b"talaria signing key v1";

/// Why there is no key.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error(transparent)]
    Store(#[from] talaria_store::Error),
    #[error("the host gives no random bytes, and keys can't be made without them")]
    NoRandom,
    #[error("the key that signs tokens could not be encoded")]
    Encoding,
}

/// The key of this home. One that another master key sealed can't be read: a new one takes its place, and the tokens of
/// the last 15 minutes end.
pub(crate) async fn load_or_make(store: &Store, sealing_key: &[u8; 32]) -> Result<SigningKey, Error> {
    if let Some(stored) = store.signing_key().await? {
        let seed = sealing::open(sealing_key, PURPOSE, &stored.sealed).and_then(|seed| seed.try_into().ok());
        if let Some(seed) = seed {
            return of_seed(&seed);
        }
        tracing::warn!("the key that signs tokens was sealed with another master key: a new one is made");
    }
    let mut seed = [0_u8; 32];
    getrandom::fill(&mut seed).map_err(|_| Error::NoRandom)?;
    let key = of_seed(&seed)?;
    let sealed = sealing::seal(sealing_key, PURPOSE, &seed).ok_or(Error::NoRandom)?;
    let kid = key.kid.clone();
    store.put_signing_key(SealedKey { kid, sealed }).await?;
    Ok(key)
}

fn of_seed(seed: &[u8; 32]) -> Result<SigningKey, Error> {
    let key = ed25519_dalek::SigningKey::from_bytes(seed);
    let x = URL_SAFE_NO_PAD.encode(key.verifying_key().as_bytes());
    // The thumbprint of RFC 7638: the required members in order, without blanks.
    let thumbprint = Sha256::digest(format!(r#"{{"crv":"Ed25519","kty":"OKP","x":"{x}"}}"#));
    let pkcs8 = key.to_pkcs8_der().map_err(|_| Error::Encoding)?;
    Ok(SigningKey {
        kid: URL_SAFE_NO_PAD.encode(thumbprint),
        pkcs8: pkcs8.as_bytes().to_vec(),
        x,
    })
}
