//! Ids: a prefix that names the kind, and a ULID. `ses_01JD…`, always upper case, always 26 characters after the prefix.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use ulid::Ulid;

/// The text was not an id of the wanted kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InvalidId {
    /// The prefix that was expected, with its underscore.
    pub prefix: &'static str,
}

impl fmt::Display for InvalidId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "expected an id of the form `{}<26 characters of a ULID>`",
            self.prefix
        )
    }
}

impl std::error::Error for InvalidId {}

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident = $prefix:literal;)+) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Ulid);

        impl $name {
            /// What every id of this kind begins with.
            pub const PREFIX: &'static str = $prefix;

            /// A fresh id, made from the clock and 80 random bits.
            #[must_use]
            #[expect(clippy::new_without_default, reason = "two calls give two ids: not a default")]
            pub fn new() -> Self {
                Self(Ulid::generate())
            }

            /// The ULID without its prefix.
            #[must_use]
            pub fn ulid(self) -> Ulid {
                self.0
            }

            /// The id of this kind with a given ULID.
            #[must_use]
            pub fn from_ulid(ulid: Ulid) -> Self {
                Self(ulid)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let mut buffer = [0_u8; ulid::ULID_LEN];
                f.write_str($prefix)?;
                f.write_str(self.0.array_to_str(&mut buffer))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl FromStr for $name {
            type Err = InvalidId;

            fn from_str(text: &str) -> Result<Self, InvalidId> {
                parse_ulid(text, $prefix).map(Self)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }

        #[cfg(feature = "schema")]
        impl utoipa::PartialSchema for $name {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
                utoipa::openapi::ObjectBuilder::new()
                    .schema_type(utoipa::openapi::schema::Type::String)
                    .pattern(Some(concat!("^", $prefix, "[0-7][0-9A-HJKMNP-TV-Z]{25}$")))
                    .into()
            }
        }

        #[cfg(feature = "schema")]
        impl utoipa::ToSchema for $name {}
    )+};
}

ids! {
    /// Of a file that a session made or was given.
    FileId = "fil_";
    /// Of an input: what a client sent to a session.
    InputId = "in_";
    /// Of anything that a run waits for.
    InteractionId = "int_";
    /// Of an API key.
    KeyId = "key_";
    /// Of one entry of a transcript.
    MessageId = "msg_";
    /// Of a profile: the wall between tenants.
    ProfileId = "prf_";
    /// Of a run: everything from one input to its terminal event.
    RunId = "run_";
    /// Of a session; a chain is addressed by the id of its first session.
    SessionId = "ses_";
}

fn parse_ulid(text: &str, prefix: &'static str) -> Result<Ulid, InvalidId> {
    let invalid = InvalidId { prefix };
    let encoded = text.strip_prefix(prefix).ok_or(invalid)?;
    let ulid = Ulid::from_string(encoded).map_err(|_| invalid)?;
    // The decoder also takes lower case; an id has one spelling only.
    if ulid.to_string() == encoded {
        Ok(ulid)
    } else {
        Err(invalid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_survives_text_and_json() {
        let id = SessionId::new();
        assert_eq!(id.to_string().parse(), Ok(id));
        let json = serde_json::to_string(&id).unwrap();
        assert_eq!(serde_json::from_str::<SessionId>(&json).unwrap(), id);
    }

    #[test]
    fn other_spellings_are_refused() {
        let id = SessionId::new().to_string();
        for text in [
            "",
            "ses_",
            "ses_1",
            &id.to_lowercase(),
            &format!("{id}0"),
            &id.replace("ses_", "run_"),
        ] {
            assert_eq!(text.parse::<SessionId>(), Err(InvalidId { prefix: "ses_" }), "{text}");
        }
        assert!(
            "ses_ZZZZZZZZZZZZZZZZZZZZZZZZZZ".parse::<SessionId>().is_err(),
            "more than 128 bits"
        );
    }
}
