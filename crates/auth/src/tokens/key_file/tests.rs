//! Each kind of key file, right and wrong.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use super::*;
use crate::tokens::testing::*;

/// What is read of a file with these bytes.
fn read_bytes(bytes: impl AsRef<[u8]>) -> Result<KeysOfFile, KeyFileFault> {
    let dir = tempfile::tempdir().unwrap();
    read(&file(dir.path(), "key", bytes))
}

fn fault(bytes: impl AsRef<[u8]>) -> String {
    match read_bytes(bytes) {
        Ok(read) => panic!("{:?}", read.keys),
        Err(fault) => fault.to_string(),
    }
}

#[test]
fn secrets_are_bytes_without_the_last_line_end() {
    for end in ["", "\n", "\r\n"] {
        let text = [SECRET, end.as_bytes()].concat();
        let read = read_bytes(text).unwrap();
        assert_eq!(read.keys[0].kind(), KeyKind::Secret(SECRET.len()));
        assert!(read.warnings.is_empty());
    }
    assert_eq!(read_bytes([SECRET, b"\n\n"].concat()).unwrap().keys[0].kind(), KeyKind::Secret(65));
    // Each hash wants a secret as long as itself.
    for (length, algorithms) in [(32, 1), (47, 1), (48, 2), (63, 2), (64, 3)] {
        let read = read_bytes(&SECRET[..length]).unwrap();
        assert_eq!(read.keys[0].algorithms().len(), algorithms, "{length}");
    }
    assert!(fault(&SECRET[..31]).contains("31 bytes"));
    for empty in ["", "\n"] {
        assert!(fault(empty).contains("empty"));
    }
    assert!(fault(vec![b'x'; 256 << 10 | 1]).contains("256 KiB"));
    let dir = tempfile::tempdir().unwrap();
    assert!(matches!(read(&dir.path().join("none")), Err(KeyFileFault::Io(_))));
}

#[test]
fn secret_that_others_can_read_is_told() {
    let dir = tempfile::tempdir().unwrap();
    for (bytes, warned) in [(SECRET, true), (Pair::p256().pem().as_bytes(), false)] {
        let path = file(dir.path(), "key", bytes);
        for (mode, open) in [(0o600, false), (0o400, false), (0o640, true), (0o604, true)] {
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            let warnings = read(&path).unwrap().warnings;
            assert_eq!(warnings.contains(&KeyFileWarning::Readable), warned && open, "{mode:o}");
        }
    }
}

#[test]
fn pem_gives_public_keys_of_three_types_and_nothing_else() {
    let (p256, ed25519) = (Pair::p256(), Pair::ed25519());
    let all = [p256.pem(), ed25519.pem(), RSA.pem()];
    let kinds: Vec<KeyKind> = read_bytes(format!("# ours\n{}", all.concat()))
        .unwrap()
        .keys
        .iter()
        .map(Key::kind)
        .collect();
    assert_eq!(kinds, [KeyKind::P256, KeyKind::Ed25519, KeyKind::Rsa]);
    for label in ["PRIVATE KEY", "EC PRIVATE KEY", "RSA PRIVATE KEY"] {
        let private = pem(label, &[0; 40]);
        assert!(fault(&private).contains("private key"), "{label}");
        assert!(fault(all.concat() + &private).contains("private key"), "{label}");
    }
    assert!(fault(pem("RSA PUBLIC KEY", &[0; 40])).contains("P-256 and Ed25519 only"));
    assert!(fault(pem("CERTIFICATE REQUEST", &[0; 40])).contains("BEGIN PUBLIC KEY"));
    assert!(fault(pem("PUBLIC KEY", &[0x30; 40])).contains("P-256 and Ed25519 only"));
    assert!(fault("-----BEGIN PUBLIC KEY-----\nAAAA\n").contains("PEM"));
    assert!(fault(pem("CERTIFICATE", &[0x30; 40])).contains("PEM"));
    // A key whose point is not on the curve.
    let mut wrong = p256.spki();
    wrong[90] ^= 1;
    assert!(fault(pem("PUBLIC KEY", &wrong)).contains("P-256 and Ed25519 only"));
    // What is public is never a secret, in no form.
    for der in [p256.spki(), ed25519.spki(), RSA.spki()] {
        assert!(fault(der).contains("DER"));
    }
}

/// RSA's own form is what follows its type in the one for all.
#[test]
fn key_of_rsa_is_read_in_its_own_form_too() {
    let spki = RSA.spki();
    let start = memchr::memmem::find(&spki, &[0x03, 0x82]).unwrap() + 5;
    let read = read_bytes(pem("RSA PUBLIC KEY", &spki[start..])).unwrap();
    assert_eq!(read.keys[0].kind(), KeyKind::Rsa);
    assert!(fault(&spki[start..]).contains("DER"));
}

/// `ssh-keygen -t ed25519`, `-t rsa` and `-t ecdsa`.
const SSH: [&str; 3] = [
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBYEO4ZH2ckV4bTPiZAHeLoW1sXMlxeK2YFeCTnzJIqw me@host",
    "no-pty ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAAAgQC7 me",
    "ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABBBIRq",
];

/// The lines between the first and the last one of PEM.
fn body(pem: &str) -> Vec<&str> {
    pem.lines().filter(|line| !line.starts_with('-')).collect()
}

#[test]
fn public_key_in_whatever_dress_is_no_secret() {
    let certificate = include_str!("certificate.pem");
    let mut dressed: Vec<Vec<u8>> = SSH.map(|text| text.as_bytes().to_owned()).into();
    for pem in [Pair::p256().pem(), Pair::ed25519().pem(), RSA.pem(), certificate.to_owned()] {
        let (lines, line) = (body(&pem).join("\n"), body(&pem).concat());
        let urlsafe = line.replace('+', "-").replace('/', "_").replace('=', "");
        let quoted = format!("\"{}\",", body(&pem).join("\\n"));
        let wide = |text: &str| text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>();
        let twice = STANDARD.encode(&pem);
        let digits = STANDARD.decode(&line).unwrap().into_iter().map(|byte| format!("{byte:02x}"));
        let digits: Vec<String> = digits.collect();
        let dump = digits.chunks(30).map(|line| line.concat() + "\n").collect::<String>();
        for text in [&lines, &line, &urlsafe, &quoted, &twice, &format!("  {line}\r\n\r\n")] {
            dressed.push(text.as_bytes().to_owned());
        }
        for text in [&dump, &digits.concat().to_uppercase(), &digits.join(":")] {
            dressed.push(text.as_bytes().to_owned());
        }
        dressed.push(wide(&format!("\u{feff}{pem}")));
        dressed.push(wide(&format!("\u{feff}{lines}")));
    }
    dressed.push(SSH[0].split(' ').nth(1).unwrap().as_bytes().to_owned());
    for bytes in dressed {
        let fault = fault(&bytes);
        assert!(fault.contains("BEGIN PUBLIC KEY"), "{}: {fault}", bytes.escape_ascii());
    }
    // What many have for a secret is one still.
    let random = [7_u8, 200, 0x30, 46, 90, 13, 250, 1].repeat(6);
    for secret in [STANDARD.encode(&random), "30".repeat(32), "ssh- is a protocol".repeat(3)] {
        assert!(read_bytes(&secret).is_ok(), "{secret}");
    }
}

#[test]
fn secret_that_everybody_knows_is_told() {
    let read = read_bytes("a-string-secret-at-least-256-bits-long\n").unwrap();
    assert_eq!(read.warnings, [KeyFileWarning::Known]);
    let known = json!({ "kty": "oct", "k": STANDARD.encode([b'x'; 33]) });
    assert_eq!(read_bytes(known.to_string()).unwrap().warnings, [KeyFileWarning::Known]);
}

#[test]
fn certificate_gives_its_key() {
    // openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=encke
    let read = read_bytes(include_str!("certificate.pem")).unwrap();
    assert_eq!(read.keys[0].kind(), KeyKind::P256);
}

#[test]
fn set_gives_the_keys_that_can_be_used_and_tells_of_the_others() {
    let set = json!({ "keys": [
        { "kty": "EC", "crv": "secp256k1", "x": "AA", "y": "AA" },
        Pair::ed25519().jwk(),
        { "kty": "new" },
        RSA.jwk(),
        7,
    ] });
    let read = read_bytes(set.to_string()).unwrap();
    assert_eq!(read.keys.len(), 2);
    assert_eq!(read.warnings, [KeyFileWarning::Ignored(3, JwkError::Type)]);
    assert!(fault(json!({ "keys": [] }).to_string()).contains("no key"));
    assert!(fault(json!({ "keys": [{ "kty": "new" }] }).to_string()).contains("oct, RSA"));
    assert!(fault(json!({ "keys": 7 }).to_string()).contains("RFC 7517"));
    let many = vec![RSA.jwk(); 101];
    assert!(fault(json!({ "keys": many }).to_string()).contains("100 keys"));
    let mut private = RSA.jwk();
    private["d"] = "AQAB".into();
    assert!(fault(private.to_string()).contains("private key"));
    let secret = Pair::Secret(SECRET).jwk();
    assert_eq!(read_bytes(secret.to_string()).unwrap().keys[0].kind(), KeyKind::Secret(64));
}

#[test]
fn no_fault_tells_what_is_in_the_file() {
    for (bytes, secret) in [
        ("hunter2-hunter2", "hunter2"),
        (r#"{"kty":"oct","k":"c2VjcmV0"}"#, "c2VjcmV0"),
        (r#"{"kty":"oct","k":"c2VjcmV0!"#, "c2VjcmV0"),
    ] {
        let fault = read_bytes(bytes).err().unwrap();
        assert!(!format!("{fault} {fault:?}").contains(secret), "{fault:?}");
    }
}
