//! Which certificate a client gets, and what becomes of files that change.

use std::fs;
use std::path::Path;

use rcgen::{
    CertificateParams, KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ED25519, SanType, date_time_ymd,
};
use tempfile::TempDir;

use super::*;

const ECDSA: SignatureScheme = SignatureScheme::ECDSA_NISTP256_SHA256;
const ED25519: SignatureScheme = SignatureScheme::ED25519;

fn write_in(
    dir: &Path,
    file: &str,
    names: &[&str],
    kind: &'static rcgen::SignatureAlgorithm,
) -> PairFiles {
    let key = KeyPair::generate_for(kind).unwrap();
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut params = CertificateParams::new(names).unwrap();
    params.not_after = date_time_ymd(2100, 1, 1);
    let certificate = params.self_signed(&key).unwrap();
    let files = PairFiles {
        certificate: dir.join(format!("{file}.pem")),
        key: dir.join(format!("{file}.key")),
    };
    fs::write(&files.certificate, certificate.pem()).unwrap();
    fs::write(&files.key, key.serialize_pem()).unwrap();
    files
}

fn write(dir: &TempDir, file: &str, names: &[&str]) -> PairFiles {
    write_in(dir.path(), file, names, &PKCS_ECDSA_P256_SHA256)
}

/// The place among `files` of what a client gets.
fn chosen(certificates: &Certificates, name: Option<&str>, schemes: &[SignatureScheme]) -> usize {
    let key = certificates.choose(name, schemes).unwrap();
    let pairs = certificates.pairs.lock().unwrap();
    pairs.iter().position(|pair| Arc::ptr_eq(&pair.certified, &key)).unwrap()
}

#[test]
fn client_gets_the_certificate_of_the_name_that_it_calls() {
    let dir = tempfile::tempdir().unwrap();
    let files = vec![
        write(&dir, "first", &["first.test"]),
        write(&dir, "wild", &["*.wild.test", "Wild.test"]),
        write(&dir, "exact", &["a.wild.test"]),
        write_in(dir.path(), "ed", &["first.test"], &PKCS_ED25519),
    ];
    let certificates = Certificates::load(files, None).unwrap();
    for (name, place, unmatched) in [
        (Some("first.test"), 0, 0),
        (Some("FIRST.test."), 0, 0),
        (Some("wild.test"), 1, 0),
        (Some("b.wild.test"), 1, 0),
        (Some("a.wild.test"), 2, 0),
        (Some("b.a.wild.test"), 0, 1),
        (Some("evil.test"), 0, 2),
        (Some("test"), 0, 3),
        (None, 0, 3),
    ] {
        assert_eq!(chosen(&certificates, name, &[ECDSA]), place, "{name:?}");
        assert_eq!(certificates.unmatched(), unmatched, "{name:?}");
    }
    let mut names = certificates.host_names();
    names.sort();
    assert_eq!(names, ["a.wild.test", "first.test", "first.test", "wild.test"]);
    // Two of one name: the one whose signature the client takes.
    assert_eq!(chosen(&certificates, Some("first.test"), &[ED25519]), 3);
    assert_eq!(chosen(&certificates, Some("first.test"), &[ED25519, ECDSA]), 0);
}

#[test]
fn reload_takes_what_is_good_and_leaves_what_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let files = vec![write(&dir, "a", &["a.test"]), write(&dir, "b", &["b.test"])];
    let certificates = Certificates::load(files.clone(), None).unwrap();
    let shown = |name| certificates.choose(Some(name), &[ECDSA]).unwrap().cert[0].to_vec();
    let before = [shown("a.test"), shown("b.test")];
    write(&dir, "a", &["a.test", "c.test"]);
    let other = write(&dir, "other", &["b.test"]);
    fs::copy(&other.certificate, &files[1].certificate).unwrap();
    assert_eq!(certificates.reload(), Reloaded { taken: 1, refused: 1 });
    assert_ne!(shown("a.test"), before[0]);
    assert_eq!(shown("c.test"), shown("a.test"));
    assert_eq!(shown("b.test"), before[1], "its key is another's: the one before stays");
    fs::copy(&other.key, &files[1].key).unwrap();
    assert_eq!(certificates.reload(), Reloaded { taken: 2, refused: 0 });
    assert_ne!(shown("b.test"), before[1]);
    assert_eq!(certificates.reloads(), [("ok", 3), ("failed", 1)]);
}

#[test]
fn certificate_is_read_with_names_of_all_kinds_and_a_long_number() {
    let dir = tempfile::tempdir().unwrap();
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(["A.Test", "::1", "*.b.test"].map(str::to_owned));
    let params = params.as_mut().unwrap();
    params.subject_alt_names.push(SanType::Rfc822Name("a@a.test".try_into().unwrap()));
    params.subject_alt_names.push(SanType::URI("https://a.test/".try_into().unwrap()));
    // RFC 5280 ends at 20 bytes, and at 2049 the short form of a date.
    params.serial_number = Some(vec![0x7f; 40].into());
    (params.not_before, params.not_after) =
        (date_time_ymd(1970, 1, 2), date_time_ymd(9999, 12, 31));
    let paths = ["pem", "key"].map(|file| dir.path().join(file));
    fs::write(&paths[0], params.self_signed(&key).unwrap().pem()).unwrap();
    fs::write(&paths[1], key.serialize_pem()).unwrap();
    let [certificate, key] = paths;
    let certificates = Certificates::load(vec![PairFiles { certificate, key }], None).unwrap();
    let pairs = certificates.pairs.lock().unwrap();
    assert_eq!(pairs[0].names, ["a.test", "*.b.test"]);
    // `date -u -d 9999-12-31 +%s`
    assert_eq!((pairs[0].begins(), pairs[0].ends()), (86_400, 253_402_214_400));
}

#[test]
fn what_cannot_be_used_is_named_with_its_file_and_cure() {
    let dir = tempfile::tempdir().unwrap();
    let good = write(&dir, "good", &["a.test"]);
    let other = write(&dir, "other", &["a.test"]);
    let bad = |name: &str, text: &str| {
        let path = dir.path().join(name);
        fs::write(&path, text).unwrap();
        path
    };
    let encrypted =
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n";
    let garbled = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    let half = "-----BEGIN CERTIFICATE-----\nAAAA\n";
    for (certificate, key, words) in [
        (&good.certificate, &other.key, &["good.pem", "other.key", "is not that of"][..]),
        (&good.certificate, &dir.path().join("none"), &["none", "No such file"]),
        (&good.key, &good.key, &["good.key", "no certificate"]),
        (&good.certificate, &good.certificate, &["good.pem", "no private key"]),
        (&good.certificate, &bad("secret", encrypted), &["secret", "openssl pkey"]),
        (&bad("garbled", garbled), &good.key, &["garbled", "cannot be read"]),
        (&bad("half", half), &good.key, &["half", "no PEM file"]),
        (&bad("large", &"x".repeat(2 << 20)), &good.key, &["large", "more than"]),
    ] {
        let files = PairFiles { certificate: certificate.clone(), key: key.clone() };
        let error = Certificates::load(vec![files], None).unwrap_err().to_string();
        for word in words {
            assert!(error.contains(word), "{word}: {error}");
        }
    }
}
