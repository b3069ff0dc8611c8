//! Cursors of lists: a place in an order, bound to the profile and the filters of the list, and signed.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use subtle::ConstantTimeEq as _;
use talaria_openapi::errors::ErrorCode;
use talaria_openapi::ids::ProfileId;

use crate::error::{ApiError, ApiResult};

const MAC_BYTES: usize = 16;

/// Signs cursors.
pub(crate) struct CursorKey([u8; 32]);

#[derive(Serialize, Deserialize)]
struct Content {
    /// Where the next page begins: the sort key and the id of the last entry.
    at: i64,
    id: String,
    /// What list, with which filters.
    list: String,
}

impl CursorKey {
    pub(crate) fn new(secret: [u8; 32]) -> Self {
        Self(secret)
    }

    /// A cursor after the entry `(at, id)` of a list; `list` names the list and its filters.
    pub(crate) fn sign(&self, profile_id: ProfileId, list: &str, at: i64, id: &str) -> String {
        let content = Content {
            at,
            id: id.to_owned(),
            list: crate::state::sha256_hex(list),
        };
        let json = serde_json::to_vec(&content).unwrap_or_default();
        let mut bytes = self.mac(profile_id, &json).to_vec();
        bytes.extend(json);
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// The place of a cursor that was made for the same profile, list and filters.
    pub(crate) fn verify(&self, profile_id: ProfileId, list: &str, cursor: &str) -> ApiResult<(i64, String)> {
        let invalid = || ApiError::new(ErrorCode::InvalidCursor).detail("begin again without `cursor`");
        let bytes = URL_SAFE_NO_PAD.decode(cursor).map_err(|_| invalid())?;
        let (mac, json) = bytes.split_at_checked(MAC_BYTES).ok_or_else(invalid)?;
        if !bool::from(self.mac(profile_id, json).ct_eq(mac)) {
            return Err(invalid());
        }
        let content: Content = serde_json::from_slice(json).map_err(|_| invalid())?;
        if content.list != crate::state::sha256_hex(list) {
            return Err(
                ApiError::new(ErrorCode::CursorMismatch).detail("use a cursor with the filters it was made with")
            );
        }
        Ok((content.at, content.id))
    }

    fn mac(&self, profile_id: ProfileId, json: &[u8]) -> [u8; MAC_BYTES] {
        let mut mac = [0_u8; MAC_BYTES];
        if let Ok(mut hmac) = Hmac::<Sha256>::new_from_slice(&self.0) {
            hmac.update(profile_id.to_string().as_bytes());
            hmac.update(json);
            for (to, from) in mac.iter_mut().zip(hmac.finalize().into_bytes()) {
                *to = from;
            }
        }
        mac
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hard_h32_a_cursor_serves_its_own_list_only() {
        let (key, profile_id) = (CursorKey::new([7; 32]), ProfileId::new());
        let cursor = key.sign(profile_id, "sessions?archived=false", 12, "ses_1");
        assert_eq!(
            key.verify(profile_id, "sessions?archived=false", &cursor).unwrap(),
            (12, "ses_1".to_owned())
        );
        let code = |profile_id, list, cursor: &str| key.verify(profile_id, list, cursor).unwrap_err().code;
        assert_eq!(code(profile_id, "sessions", &cursor), ErrorCode::CursorMismatch);
        assert_eq!(
            code(ProfileId::new(), "sessions?archived=false", &cursor),
            ErrorCode::InvalidCursor
        );
        for at in 0..cursor.len() {
            let mut flipped = cursor.clone().into_bytes();
            flipped[at] = if flipped[at] == b'A' { b'B' } else { b'A' };
            let flipped = String::from_utf8(flipped).unwrap();
            if flipped != cursor {
                assert_eq!(
                    code(profile_id, "sessions?archived=false", &flipped),
                    ErrorCode::InvalidCursor,
                    "{at}"
                );
            }
        }
    }
}
