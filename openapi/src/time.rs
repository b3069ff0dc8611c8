//! Time on the wire: RFC 3339 in UTC with milliseconds.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A moment, in milliseconds since 1970-01-01 UTC. Printed as `2026-12-01T03:40:00.123Z`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// From milliseconds since the epoch. Values outside the years 0 to 9999 are pulled to the nearest end.
    #[must_use]
    pub fn from_millis(millis: i64) -> Self {
        const YEAR_0: i64 = -62_167_219_200_000;
        const YEAR_9999: i64 = 253_402_300_799_999;
        Self(millis.clamp(YEAR_0, YEAR_9999))
    }

    /// Milliseconds since the epoch.
    #[must_use]
    pub fn as_millis(self) -> i64 {
        self.0
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_millisecond(self.0) {
            Ok(at) => write!(f, "{at:.3}"),
            Err(_) => f.write_str("1970-01-01T00:00:00.000Z"),
        }
    }
}

impl std::str::FromStr for Timestamp {
    type Err = jiff::Error;

    fn from_str(text: &str) -> Result<Self, jiff::Error> {
        text.parse::<jiff::Timestamp>()
            .map(|at| Self::from_millis(at.as_millisecond()))
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(feature = "schema")]
impl utoipa::PartialSchema for Timestamp {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        use utoipa::openapi::schema::{KnownFormat, SchemaFormat, Type};
        utoipa::openapi::ObjectBuilder::new()
            .schema_type(Type::String)
            .format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime)))
            .into()
    }
}

#[cfg(feature = "schema")]
impl utoipa::ToSchema for Timestamp {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_milliseconds_always() {
        assert_eq!(Timestamp::from_millis(0).to_string(), "1970-01-01T00:00:00.000Z");
        assert_eq!(
            "2026-12-01T03:40:00.123Z".parse::<Timestamp>().unwrap().to_string(),
            "2026-12-01T03:40:00.123Z"
        );
        assert_eq!(
            "2026-12-01T05:40:00+02:00".parse::<Timestamp>().unwrap().to_string(),
            "2026-12-01T03:40:00.000Z"
        );
    }

    #[test]
    fn any_number_prints() {
        for millis in [i64::MIN, i64::MAX] {
            assert!(Timestamp::from_millis(millis).to_string().ends_with('Z'));
        }
    }
}
