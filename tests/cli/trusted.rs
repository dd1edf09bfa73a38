//! Servers whose certificate an authority of their own has signed.

use super::command_in;
use super::scheduled::{Server, prepared};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::path::Path;
use std::process::{Output, Stdio};

const FLOW: &str = "name: flow\nsteps: [{ id: a, set: 1 }]\noutputs: { a: \"${ .steps.a.output }\" }\n";

fn pem(kind: &str, der: &[u8]) -> String {
    format!("-----BEGIN {kind}-----\n{}\n-----END {kind}-----\n", STANDARD.encode(der))
}

/// Writes an authority and a certificate of this machine that it has signed: `ca.pem`, `cert.pem`,
/// `key.pem`.
fn write_certificates(folder: &Path) {
    let mut signs = rcgen::CertificateParams::new(Vec::new()).unwrap();
    signs.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    signs.distinguished_name.push(rcgen::DnType::CommonName, "wfhost test authority");
    let key = rcgen::KeyPair::generate().unwrap();
    let authority = signs.self_signed(&key).unwrap();
    let issuer = rcgen::Issuer::new(signs, key);
    let server = rcgen::KeyPair::generate().unwrap();
    let names = rcgen::CertificateParams::new(vec!["localhost".to_owned(), "127.0.0.1".to_owned()]).unwrap();
    let certificate = names.signed_by(&server, &issuer).unwrap();
    std::fs::write(folder.join("ca.pem"), pem("CERTIFICATE", authority.der())).unwrap();
    std::fs::write(folder.join("cert.pem"), pem("CERTIFICATE", certificate.der())).unwrap();
    std::fs::write(folder.join("key.pem"), pem("PRIVATE KEY", &server.serialize_der())).unwrap();
}

fn said(output: &Output) -> String {
    super::transcript(output)
}

#[test]
fn a_server_is_trusted_by_its_own_authority() {
    let (data, files, token) = prepared(FLOW);
    write_certificates(files.path());
    let file = |name: &str| files.path().join(name).to_str().unwrap().to_owned();
    let (ca, certificate, key) = (file("ca.pem"), file("cert.pem"), file("key.pem"));
    let server = Server::start_with(&data, files.path(), &["--tls-cert", &certificate, "--tls-key", &key]);
    let url = server.url();
    assert!(url.starts_with("https://"), "{url}");
    let home = tempfile::tempdir().unwrap();
    let by = |arguments: &[&str], variables: &[(&str, &str)]| {
        let mut command = command_in(&data, arguments);
        command.env("XDG_CONFIG_HOME", home.path()).env_remove("WFHOST_TOKEN").env_remove("WFHOST_SERVER");
        command.envs(variables.iter().copied()).stdin(Stdio::null()).output().unwrap()
    };
    let with_token = [("WFHOST_TOKEN", &*token)];

    // Without it, it is refused, and the hint names the flag.
    for command in [&["ls"][..], &["deploy", &file("flow.yaml")], &["top", "--once"], &["run", "flow"]] {
        let refused = by(&[command, &["--server", &url]].concat(), &with_token);
        let text = said(&refused);
        assert!(!refused.status.success() && text.contains("signed its certificate"), "{command:?}: {text}");
        assert!(text.contains("--ca FILE or WFHOST_CA"), "{command:?}: {text}");
    }
    let refused = by(&["login", &url], &with_token);
    assert!(!refused.status.success() && said(&refused).contains("--ca FILE"), "{}", said(&refused));

    // By the flag, and by the variable.
    for command in [&["ls"][..], &["deploy", &file("flow.yaml")], &["top", "--once"], &["run", "flow"]] {
        let words = [command, &["--server", &url, "--ca", &ca]].concat();
        let done = by(&words, &with_token);
        assert!(done.status.success(), "{words:?}: {}", said(&done));
        let done = by(&[command, &["--server", &url]].concat(), &[with_token[0], ("WFHOST_CA", &ca)]);
        assert!(done.status.success(), "{command:?}: {}", said(&done));
    }

    // The login keeps it, and not its path.
    let logged_in = by(&["login", &url, "--ca", &ca], &with_token);
    assert!(logged_in.status.success(), "{}", said(&logged_in));
    std::fs::remove_file(&ca).unwrap();
    let listed = by(&["ls", "--server", &url], &[]);
    assert!(listed.status.success(), "{}", said(&listed));
    let again = by(&["login", &url], &with_token);
    assert!(again.status.success(), "{}", said(&again));
    assert!(by(&["ls", "--server", &url], &[]).status.success());

    // What is named counts, even if it is wrong.
    for (wrong, why) in [(&*ca, "No such file"), (&*key, "it has no certificate in PEM")] {
        let refused = by(&["ls", "--server", &url, "--ca", wrong], &[]);
        assert_eq!(refused.status.code(), Some(2));
        assert!(said(&refused).contains(why), "{}", said(&refused));
    }
}
