//! Short-lived tokens: JWTs that this server signs and that only this server takes (api.md 2.8).
//!
//! The algorithm is ours, never the token's. The key is made for this home, so a token of another server doesn't verify;
//! the issuer is for readers of tokens and isn't checked, since the address of a home may change.

use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation};
use serde::{Deserialize, Serialize};
use talaria_domain::principal::{Principal, PrincipalName};
use talaria_openapi::auth::{Jwk, Scope};
use talaria_openapi::ids::{ProfileId, RunId};
use talaria_openapi::time::Timestamp;

/// Longest life of a token.
pub(crate) const MAX_SECONDS: i64 = 15 * 60;
/// How wrong the clocks of two machines may be.
const LEEWAY_SECONDS: i64 = 60;
const AUDIENCE: &str = "talaria";

/// What signs tokens: an Ed25519 key of this home.
#[derive(Clone)]
pub struct SigningKey {
    /// Names the key in tokens.
    pub kid: String,
    /// The private half, as PKCS #8.
    pub pkcs8: Vec<u8>,
    /// The public half: 32 bytes in base64url.
    pub x: String,
}

/// Issues and verifies tokens.
pub(crate) struct Tokens {
    issuer: String,
    public: Jwk,
    sign: EncodingKey,
    verify: DecodingKey,
}

#[derive(Debug, Serialize, Deserialize)]
struct Claims {
    iss: String,
    aud: String,
    sub: String,
    prf: ProfileId,
    scope: String,
    exp: i64,
    iat: i64,
    nbf: i64,
    jti: String,
}

/// Why a token is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refused {
    /// It was good once.
    Expired,
    /// It isn't one of ours.
    Invalid,
}

/// A token and the seconds that it lives.
pub(crate) struct Issued {
    pub(crate) token: String,
    pub(crate) expires_in: i64,
}

impl Tokens {
    /// `None` when the key is not an Ed25519 key.
    pub(crate) fn new(issuer: String, key: &SigningKey) -> Option<Self> {
        Some(Self {
            issuer,
            public: Jwk {
                kty: "OKP".to_owned(),
                crv: "Ed25519".to_owned(),
                key_use: "sig".to_owned(),
                alg: "EdDSA".to_owned(),
                kid: key.kid.clone(),
                x: key.x.clone(),
            },
            sign: EncodingKey::from_ed_der(&key.pkcs8),
            verify: DecodingKey::from_ed_components(&key.x).ok()?,
        })
    }

    /// Who signs, as a URL.
    pub(crate) fn issuer(&self) -> &str {
        &self.issuer
    }

    /// What verifies tokens.
    pub(crate) fn public(&self) -> &Jwk {
        &self.public
    }

    /// A token for a principal with some of its scopes; it never outlives the credential that it was made with.
    pub(crate) fn issue(&self, principal: &Principal, scopes: &[Scope], now: Timestamp) -> Option<Issued> {
        let iat = now.as_millis() / 1000;
        let left = principal
            .expires_at
            .map_or(MAX_SECONDS, |at| at.as_millis() / 1000 - iat);
        let expires_in = left.clamp(0, MAX_SECONDS);
        let claims = Claims {
            iss: self.issuer.clone(),
            aud: AUDIENCE.to_owned(),
            sub: principal.name.to_string(),
            prf: principal.profile_id,
            scope: join(scopes),
            exp: iat + expires_in,
            iat,
            nbf: iat,
            jti: RunId::new().ulid().to_string(),
        };
        let mut header = Header::new(Algorithm::EdDSA);
        header.kid = Some(self.public.kid.clone());
        let token = jsonwebtoken::encode(&header, &claims, &self.sign).ok()?;
        Some(Issued { token, expires_in })
    }

    /// The principal of a token. Whether the key behind it still works is for the caller to ask.
    pub(crate) fn verify(&self, token: &str, now: Timestamp) -> Result<Principal, Refused> {
        let mut validation = Validation::new(Algorithm::EdDSA);
        validation.set_audience(&[AUDIENCE]);
        validation.set_required_spec_claims(&["exp", "aud", "sub"]);
        // Times are checked below, by the clock that everything else goes by.
        validation.validate_exp = false;
        validation.validate_nbf = false;
        let claims = jsonwebtoken::decode::<Claims>(token, &self.verify, &validation)
            .map_err(|_| Refused::Invalid)?
            .claims;
        let now = now.as_millis() / 1000;
        if claims.nbf > now + LEEWAY_SECONDS {
            return Err(Refused::Invalid);
        }
        if claims.exp + LEEWAY_SECONDS <= now {
            return Err(Refused::Expired);
        }
        let name: PrincipalName = claims.sub.parse().map_err(|_| Refused::Invalid)?;
        Ok(Principal {
            name,
            profile_id: claims.prf,
            scopes: claims.scope.split(' ').filter_map(|scope| scope.parse().ok()).collect(),
            expires_at: Some(Timestamp::from_millis(claims.exp * 1000)),
        })
    }
}

/// Scopes as OAuth writes them.
pub(crate) fn join(scopes: &[Scope]) -> String {
    let names: Vec<&str> = scopes.iter().map(|scope| scope.as_str()).collect();
    names.join(" ")
}

#[cfg(test)]
mod tests {
    use talaria_openapi::ids::KeyId;

    use super::*;

    /// The first key of RFC 8032, 7.1, as PKCS #8 (RFC 8410).
    fn key() -> SigningKey {
        let seed = [
            0x9d, 0x61, 0xb1, 0x9d, 0xef, 0xfd, 0x5a, 0x60, 0xba, 0x84, 0x4a, 0xf4, 0x92, 0xec, 0x2c, 0xc4, 0x44, 0x49,
            0xc5, 0x69, 0x7b, 0x32, 0x69, 0x19, 0x70, 0x3b, 0xac, 0x03, 0x1c, 0xae, 0x7f, 0x60,
        ];
        let head = [
            0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20,
        ];
        SigningKey {
            kid: "k".to_owned(),
            pkcs8: [head.as_slice(), &seed].concat(),
            x: "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo".to_owned(),
        }
    }

    fn principal(expires_at: Option<i64>) -> Principal {
        Principal {
            name: PrincipalName::Key(KeyId::new()),
            profile_id: ProfileId::new(),
            scopes: [Scope::SessionsRead].into(),
            expires_at: expires_at.map(Timestamp::from_millis),
        }
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_millis(1_800_000_000_000 + seconds * 1000)
    }

    #[test]
    fn a_token_says_who_until_it_expires() {
        let tokens = Tokens::new("http://127.0.0.1:8640".to_owned(), &key()).unwrap();
        let made_with = principal(None);
        let issued = tokens.issue(&made_with, &[Scope::SessionsRead], at(0)).unwrap();
        assert_eq!(issued.expires_in, MAX_SECONDS);
        let expected = Principal {
            expires_at: Some(at(MAX_SECONDS)),
            ..made_with
        };
        for seconds in [-LEEWAY_SECONDS, 0, MAX_SECONDS, MAX_SECONDS + LEEWAY_SECONDS - 1] {
            assert_eq!(
                tokens.verify(&issued.token, at(seconds)).as_ref(),
                Ok(&expected),
                "{seconds}"
            );
        }
        let verify = |seconds| tokens.verify(&issued.token, at(seconds));
        assert_eq!(verify(MAX_SECONDS + LEEWAY_SECONDS), Err(Refused::Expired));
        assert_eq!(verify(-LEEWAY_SECONDS - 1), Err(Refused::Invalid));
    }

    #[test]
    fn a_token_never_outlives_its_credential() {
        let tokens = Tokens::new(String::new(), &key()).unwrap();
        let ends_soon = principal(Some(at(30).as_millis()));
        assert_eq!(tokens.issue(&ends_soon, &[], at(0)).unwrap().expires_in, 30);
        assert_eq!(tokens.issue(&ends_soon, &[], at(31)).unwrap().expires_in, 0);
    }

    #[test]
    fn tokens_that_are_not_ours_are_refused() {
        let ours = Tokens::new(String::new(), &key()).unwrap();
        let forge = |header: Header, claims: serde_json::Value, key: &EncodingKey| {
            jsonwebtoken::encode(&header, &claims, key).unwrap()
        };
        let good = serde_json::json!({"iss": "", "aud": AUDIENCE, "sub": "local", "prf": ProfileId::new(), "scope": "admin",
            "exp": at(60).as_millis() / 1000, "iat": 0, "nbf": 0, "jti": "x"});
        let with = |name: &str, value: &str| {
            let mut claims = good.clone();
            claims[name] = value.into();
            claims
        };
        let eddsa = || Header::new(Algorithm::EdDSA);
        let ed = EncodingKey::from_ed_der(&key().pkcs8);
        assert!(ours.verify(&forge(eddsa(), good.clone(), &ed), at(0)).is_ok());
        let public = EncodingKey::from_secret(key().x.as_bytes()).unwrap();
        let signed_by_public = forge(Header::new(Algorithm::HS256), good.clone(), &public);
        let (payload, signature) = {
            let token = forge(eddsa(), good.clone(), &ed);
            let mut parts = token.split('.').skip(1).map(str::to_owned);
            (parts.next().unwrap(), parts.next().unwrap())
        };
        // {"alg":"none"}
        let none = format!("eyJhbGciOiJub25lIn0.{payload}.");
        for token in [
            signed_by_public,
            none,
            format!("eyJhbGciOiJub25lIn0.{payload}.{signature}"),
            forge(eddsa(), with("aud", "another"), &ed),
            forge(eddsa(), with("sub", "root"), &ed),
            forge(eddsa(), with("exp", "never"), &ed),
            String::new(),
            "a.b.c".to_owned(),
        ] {
            assert_eq!(ours.verify(&token, at(0)), Err(Refused::Invalid), "{token}");
        }
    }
}
