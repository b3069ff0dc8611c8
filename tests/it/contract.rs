//! The committed OpenAPI document is the one that the routes make.

use talaria_openapi::events::EventBody;
use talaria_tests::server::repository;

#[test]
fn the_committed_document_is_up_to_date() {
    let committed = std::fs::read_to_string(repository().join("openapi/openapi.json")).unwrap();
    let generated = talaria_server::openapi_json();
    assert!(
        committed == generated,
        "run `cargo run -p talaria-server -- openapi > openapi/openapi.json` and look at what changed"
    );
}

#[test]
fn every_event_is_in_the_document() {
    let document = talaria_server::openapi_json();
    for event_type in EventBody::TYPES {
        assert!(document.contains(&format!("\"{event_type}\"")), "{event_type}");
    }
}

#[test]
fn the_tables_of_the_documents_are_up_to_date() {
    let committed = std::fs::read_to_string(repository().join("docs/API-TABLES.md")).unwrap();
    assert!(
        committed == talaria_server::api_tables(),
        "run `cargo run -p talaria-server -- openapi --tables > docs/API-TABLES.md` and look at what changed"
    );
}
