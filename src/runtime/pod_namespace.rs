//! The namespace of the pod in which the process runs.

/// The file with the namespace of a pod's service account.
const NAMESPACE_OF_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

/// The namespace of the service account, which a pod has beside its token.
pub(crate) fn namespace_of_account() -> Option<String> {
    let text = std::fs::read_to_string(NAMESPACE_OF_ACCOUNT).ok()?;
    Some(text.trim().to_owned())
}
