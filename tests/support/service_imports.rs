//! The definition of ServiceImports, for API servers that have none.

use serde_json::{Value, json};

/// The definition of ServiceImports, in both versions.
pub fn definition() -> Value {
    let version = |name: &str, storage: bool| {
        json!({
            "name": name, "served": true, "storage": storage,
            "schema": { "openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": true,
            } },
        })
    };
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {
            "name": "serviceimports.multicluster.x-k8s.io",
            // the group is one of those that the API server guards
            "annotations": { "api-approved.kubernetes.io":
                             "https://github.com/kubernetes/enhancements/pull/1646" },
        },
        "spec": {
            "group": "multicluster.x-k8s.io", "scope": "Namespaced",
            "names": { "kind": "ServiceImport", "listKind": "ServiceImportList",
                       "plural": "serviceimports", "singular": "serviceimport" },
            "versions": [version("v1beta1", true), version("v1alpha1", false)],
        },
    })
}
