//! The OpenAPI description, made from the table of endpoints, and the schemas to which it refers.

use std::sync::LazyLock;

use history::SCHEMA;
use serde_json::{Map, Value, json};

use crate::endpoint::{ENDPOINTS, Endpoint, Parameter, Right, Times};
use crate::refusal::Refusal;

/// The path of the description.
const PATH: &str = "/openapi.json";

/// The schemas of `docs/schema` that are served, by their names.
const SCHEMAS: &[(&str, &str)] = &[
    ("blame", include_str!("../../../docs/schema/blame.json")),
    (
        "corefile",
        include_str!("../../../docs/schema/corefile.json"),
    ),
    ("diff", include_str!("../../../docs/schema/diff.json")),
    ("history", include_str!("../../../docs/schema/history.json")),
    ("log", include_str!("../../../docs/schema/log.json")),
    ("show", include_str!("../../../docs/schema/show.json")),
    ("status", include_str!("../../../docs/schema/status.json")),
    ("verify", include_str!("../../../docs/schema/verify.json")),
    ("why", include_str!("../../../docs/schema/why.json")),
];

/// The description as it is served and as it is in `docs`.
static TEXT: LazyLock<String> = LazyLock::new(|| {
    let text = serde_json::to_string_pretty(&description());
    text.expect("a description is JSON") + "\n"
});

/// The description.
#[must_use]
pub fn text() -> &'static str {
    &TEXT
}

/// The description or the schema at a path.
pub(crate) fn document(path: &str) -> Option<&'static str> {
    if path == PATH {
        return Some(text());
    }
    let name = path.strip_prefix("/schema/")?.strip_suffix(".json")?;
    let mut schemas = SCHEMAS.iter();
    schemas.find(|(it, _)| *it == name).map(|(_, text)| *text)
}

fn description() -> Value {
    let paths: Map<String, Value> = ENDPOINTS
        .iter()
        .map(|endpoint| (endpoint.path(), json!({ "get": operation(endpoint) })))
        .collect();
    json!({
        "openapi": "3.1.1",
        "info": {
            "title": "zonewright: the history of zones",
            "description": "Reads the history of zones, and changes nothing. Each answer is JSON lines: one object on each line, as `zonewright … --output json` prints them.",
            "version": SCHEMA.to_string(),
        },
        "security": [{ "token": [] }, { "certificate": [] }],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "A token that the API server of the cluster accepts (`tokens` of `history_api`)",
                },
                "certificate": {
                    "type": "mutualTLS",
                    "description": "A client certificate (`client_ca` of `history_api`)",
                },
            },
            "schemas": { "failure": failure() },
        },
    })
}

/// The schema of the line that says why there is no answer, or only a part of one.
fn failure() -> Value {
    json!({
        "type": "object",
        "properties": {
            "schema": { "const": SCHEMA },
            "fault": {
                "enum": ["wrong", "unknown", "failed", "unauthenticated", "forbidden", "limited", "unavailable"],
            },
            "exit": { "enum": [1, 2, 3], "description": "The exit code of the command line" },
            "error": { "type": "string" },
        },
        "required": ["schema", "fault", "exit", "error"],
        "additionalProperties": false,
    })
}

fn operation(endpoint: &Endpoint) -> Value {
    let zone = endpoint.has_zone.then(|| {
        json!({
            "name": "zone", "in": "path", "required": true, "schema": { "type": "string" },
            "description": "the zone, such as cluster.local",
        })
    });
    let parameters: Vec<Value> = zone
        .into_iter()
        .chain(endpoint.parameters.iter().map(parameter))
        .collect();
    let right = match endpoint.right {
        Right::Zone => "Needs the right to read the zone.",
        Right::All => "Needs the right to read all zones.",
    };
    let id = match endpoint.has_zone {
        true => format!("zone-{}", endpoint.name),
        false => endpoint.name.to_owned(),
    };
    json!({
        "operationId": id,
        "summary": endpoint.summary,
        "description": right,
        "parameters": parameters,
        "responses": responses(endpoint),
    })
}

fn parameter(of: &Parameter) -> Value {
    let schema = match of.times {
        Times::AtMostOnce | Times::Once => json!({ "type": "string" }),
        Times::Any => json!({ "type": "array", "items": { "type": "string" } }),
    };
    json!({
        "name": of.name,
        "in": "query",
        "required": of.times == Times::Once,
        "description": of.meaning,
        "schema": schema,
    })
}

fn responses(endpoint: &Endpoint) -> Value {
    let lines = |schema: Value| json!({ "application/x-ndjson": { "schema": schema } });
    let schema = json!({ "$ref": format!("schema/{}.json", endpoint.schema) });
    let mut all = Map::new();
    let answer = json!({
        "description": "The answer. The schema is that of one line. An answer that breaks off has no end: the connection is closed",
        "content": lines(schema),
    });
    all.insert("200".to_owned(), answer);
    for (refusal, description) in REFUSALS {
        let schema = json!({ "$ref": "#/components/schemas/failure" });
        let response = json!({ "description": description, "content": lines(schema) });
        all.insert(refusal.status().as_str().to_owned(), response);
    }
    // What the history does not tell is the one refusal that only an answer can make.
    let schema = json!({ "$ref": "#/components/schemas/failure" });
    let unknown = "The history does not tell (exit code 3)";
    all.insert(
        "410".to_owned(),
        json!({ "description": unknown, "content": lines(schema) }),
    );
    Value::Object(all)
}

/// The refusals, each with its meaning.
const REFUSALS: &[(Refusal, &str)] = &[
    (
        Refusal::Wrong(String::new()),
        "The question is malformed, or about something that cannot exist (exit code 2)",
    ),
    (
        Refusal::Unauthenticated(""),
        "There is no token or certificate, or it is not accepted",
    ),
    (
        Refusal::Forbidden(String::new()),
        "The reader may not read this",
    ),
    (Refusal::NoEndpoint, "There is no such endpoint"),
    (Refusal::Method, "The method is neither GET nor HEAD"),
    (Refusal::Body, "The request has a body"),
    (Refusal::LongUrl, "Path and query are too long"),
    (
        Refusal::TooMany,
        "The reader asks too often, or too much at once; Retry-After says when to ask again",
    ),
    (
        Refusal::Failed(String::new()),
        "The answer failed, or the history is not as it was written",
    ),
    (
        Refusal::Busy,
        "Too many ask at once, or the API server gives no verdict; Retry-After says when to ask again",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_endpoint_is_described_with_its_schema_and_every_refusal() {
        let described: Value = serde_json::from_str(text()).unwrap();
        for endpoint in ENDPOINTS {
            let operation = &described["paths"][endpoint.path()]["get"];
            assert_eq!(operation["summary"], endpoint.summary);
            let content = &operation["responses"]["200"]["content"];
            let schema = content["application/x-ndjson"]["schema"]["$ref"].as_str();
            let served = document(&format!("/{}", schema.unwrap())).unwrap();
            let title = serde_json::from_str::<Value>(served).unwrap()["title"].clone();
            assert!(title.is_string(), "{title}");
            let statuses = operation["responses"].as_object().unwrap();
            assert_eq!(statuses.len(), 2 + REFUSALS.len(), "{statuses:?}");
        }
        assert_eq!(
            described["paths"].as_object().unwrap().len(),
            ENDPOINTS.len()
        );
        assert!(document("/schema/check.json").is_none());
        assert!(document("/openapi").is_none());
    }
}
