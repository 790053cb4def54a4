//! The roles of `deploy/`, given to the tests' user as an operator gives them to the account.

use std::fs;

use serde_json::{Value, json};

use super::apiserver::{Access, ApiServer};

/// Binds the ClusterRole of a file of `deploy/` to the user with no rights of its own.
///
/// # Panics
/// When the file has no ClusterRole, or the server refuses it.
pub fn grant(server: &ApiServer, file: &str) {
    let text = fs::read_to_string(format!("deploy/{file}")).expect("the role is there");
    let documents: Vec<Value> = serde_saphyr::from_multiple(&text).expect("the role is YAML");
    let role = documents
        .iter()
        .find(|document| document["kind"] == "ClusterRole")
        .expect("a ClusterRole");
    server.create(role);
    let group = "rbac.authorization.k8s.io";
    server.create(&json!({
        "apiVersion": format!("{group}/v1"), "kind": "ClusterRoleBinding",
        "metadata": { "name": role["metadata"]["name"] },
        "roleRef": { "apiGroup": group, "kind": "ClusterRole", "name": role["metadata"]["name"] },
        "subjects": [{ "apiGroup": group, "kind": "User", "name": Access::Limited.user() }],
    }));
}
