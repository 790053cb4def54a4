//! The role of `deploy/`, given to the tests' user as an operator gives it to the account.

use std::fs;

use serde_json::{Value, json};

use super::apiserver::{Access, ApiServer};

/// Binds the ClusterRole of `deploy/base`, as these components change it, to the user with no rights of its own.
///
/// # Panics
/// When there is no such component, or the server refuses the role.
pub fn grant(server: &ApiServer, components: &[&str]) {
    let text = fs::read_to_string("deploy/base/rbac.yaml").expect("the role is there");
    let documents: Vec<Value> = serde_saphyr::from_multiple(&text).expect("the role is YAML");
    let mut documents = documents.into_iter();
    let mut role = documents
        .find(|document| document["kind"] == "ClusterRole")
        .expect("a ClusterRole");
    for component in components {
        let file = format!("deploy/components/{component}/rights.yaml");
        let text = fs::read_to_string(file).expect("the component has rights");
        let changes: Vec<Value> = serde_saphyr::from_str(&text).expect("they are a JSON patch");
        let rules = role["rules"].as_array_mut().expect("a list of rules");
        for change in &changes {
            match change["op"].as_str() {
                Some("add") => rules.push(change["value"].clone()),
                Some("remove") => drop(rules.remove(1)),
                _ => assert_eq!(change["value"], rules[1]["resources"]),
            }
        }
    }
    server.apply(&role, "rbac");
    let group = "rbac.authorization.k8s.io";
    let name = &role["metadata"]["name"];
    let binding = json!({
        "apiVersion": format!("{group}/v1"), "kind": "ClusterRoleBinding",
        "metadata": { "name": name },
        "roleRef": { "apiGroup": group, "kind": "ClusterRole", "name": name },
        "subjects": [{ "apiGroup": group, "kind": "User", "name": Access::Limited.user() }],
    });
    server.apply(&binding, "rbac");
}
