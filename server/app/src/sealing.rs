//! Secrets at rest, encrypted with the master key.
//!
//! XChaCha20-Poly1305: 24 random bytes of nonce, then the text and its tag. The purpose is authenticated with it, so that
//! what was sealed for one thing doesn't open as another.

use chacha20poly1305::aead::{Aead as _, Payload};
use chacha20poly1305::{KeyInit as _, XChaCha20Poly1305, XNonce};

const NONCE_BYTES: usize = 24;

/// Encrypts a secret. `None` when the host gives no random bytes.
pub(crate) fn seal(key: &[u8; 32], purpose: &[u8], secret: &[u8]) -> Option<Vec<u8>> {
    let mut nonce = [0_u8; NONCE_BYTES];
    getrandom::fill(&mut nonce).ok()?;
    let payload = Payload {
        msg: secret,
        aad: purpose,
    };
    let sealed = XChaCha20Poly1305::new(key.into())
        .encrypt(&XNonce::from(nonce), payload)
        .ok()?;
    Some([nonce.as_slice(), &sealed].concat())
}

/// Decrypts what was sealed. `None` when it was sealed with another key or for another purpose, or was changed.
pub(crate) fn open(key: &[u8; 32], purpose: &[u8], sealed: &[u8]) -> Option<Vec<u8>> {
    let (nonce, sealed) = sealed.split_first_chunk::<NONCE_BYTES>()?;
    let payload = Payload {
        msg: sealed,
        aad: purpose,
    };
    XChaCha20Poly1305::new(key.into())
        .decrypt(&XNonce::from(*nonce), payload)
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_key_and_purpose_open() {
        let sealed = seal(&[7; 32], b"a", b"secret").unwrap();
        assert_eq!(open(&[7; 32], b"a", &sealed).as_deref(), Some(b"secret".as_slice()));
        assert_eq!(open(&[8; 32], b"a", &sealed), None);
        assert_eq!(open(&[7; 32], b"b", &sealed), None);
        for at in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[at] ^= 1;
            assert_eq!(open(&[7; 32], b"a", &changed), None, "byte {at}");
            assert_eq!(open(&[7; 32], b"a", &sealed[..at]), None, "cut at {at}");
        }
        assert_ne!(sealed, seal(&[7; 32], b"a", b"secret").unwrap());
    }
}
