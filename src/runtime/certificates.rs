//! Certificates of TLS listeners: read from their files, and read again when these change.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail};
use directives::config::{ClientAuth, Config, ServerBlock, Tls};
use server::{TlsClients, TlsIdentity, TlsMaterial};

use crate::failure::{Failure, one_line};
use crate::runtime::followed_files::{Contents, Reload};

/// The TLS of the listeners of some blocks, and the files to follow.
pub(crate) fn open(blocks: &[&ServerBlock]) -> anyhow::Result<(Arc<TlsIdentity>, Reload)> {
    let Some(tls) = blocks.iter().find_map(|block| block.get::<Tls>()).cloned() else {
        bail!("a listener needs a certificate: write tls CERT KEY in its block");
    };
    let Tls {
        certificate,
        key,
        ca,
        crl,
        ..
    } = &tls;
    let files = [Some(certificate), Some(key), ca.as_ref(), crl.as_ref()];
    let files: Vec<PathBuf> = files.into_iter().flatten().cloned().collect();
    // Before they are read, so that a change meanwhile is seen.
    let seen = Contents::of(&files);
    let identity = TlsIdentity::new(&read(&tls)?).with_context(|| place(&tls))?;
    let identity = Arc::new(identity);
    let used = Arc::clone(&identity);
    let take = move || {
        let taken = read(&tls).and_then(|material| {
            used.replace(&material).with_context(|| place(&tls))?;
            Ok(())
        });
        taken.map_err(|error| vec![one_line(&error)])
    };
    let reload = Reload::new("certificates", files, seen, Box::new(take));
    Ok((identity, reload))
}

/// Opens the certificates of all listeners that need one, for `check`.
pub(crate) fn check_certificates(config: &Config) -> Result<(), Failure> {
    let mut wrong: Vec<String> = Vec::new();
    for (listener, blocks) in config.listeners() {
        // A listener without one is an error of the Corefile.
        let has_tls = blocks.iter().any(|block| block.has::<Tls>());
        if listener.scheme.encrypted().is_none() || !has_tls {
            continue;
        }
        if let Err(error) = open(&blocks) {
            let line = one_line(&error);
            // Blocks share listeners.
            if !wrong.contains(&line) {
                wrong.push(line);
            }
        }
    }
    if wrong.is_empty() {
        Ok(())
    } else {
        Err(Failure::unusable(wrong.join("\n")))
    }
}

/// The prefix of an error.
fn place(tls: &Tls) -> String {
    format!("{}: tls {}", tls.place, tls.certificate.display())
}

/// The contents of the files.
fn read(tls: &Tls) -> anyhow::Result<TlsMaterial> {
    let contents = |file: &Path| {
        std::fs::read(file)
            .with_context(|| format!("{}: cannot read {}", tls.place, file.display()))
    };
    let clients = match (&tls.ca, tls.client_auth) {
        (None, _) | (Some(_), ClientAuth::Never) => None,
        (Some(ca), auth @ (ClientAuth::IfGiven | ClientAuth::Always)) => Some(TlsClients {
            authorities: contents(ca)?,
            revoked: tls.crl.as_deref().map(contents).transpose()?,
            is_required: auth == ClientAuth::Always,
        }),
    };
    Ok(TlsMaterial {
        certificates: contents(&tls.certificate)?,
        key: contents(&tls.key)?,
        clients,
    })
}
