//! Secrets that anybody can guess although they are long: those of tutorials, and the same few
//! characters over and over.

/// Secrets of 32 bytes and more that documents print and are copied from there: jwt.io, Mercure,
/// Supabase, Spring's tutorials, and those that everybody thinks of.
const PRINTED: [&str; 17] = [
    "!ChangeThisMercureHubJWTSecretKey!",
    "!ChangeThisMercureHubJWTSecretKey!!ChangeThisMercureHubJWTSecretKey!",
    "!UnsecureChangeMe!!UnsecureChangeMe!",
    "404E635266556A586E3272357538782F413F4428472B4B6250645367566B5970",
    "a-string-secret-at-least-256-bits-long",
    "a-valid-string-secret-that-is-at-least-384-bits-long",
    "a-valid-string-secret-that-is-at-least-512-bits-long-which-is-very-long",
    "super-secret-jwt-token-with-at-least-32-characters-long",
    "your-super-secret-jwt-token-with-at-least-32-characters-long",
    "this-is-a-very-long-secret-key-for-jwt-tokens",
    "please-change-this-secret-to-something-long-and-random",
    "abcdefghijklmnopqrstuvwxyz012345",
    "abcdefghijklmnopqrstuvwxyz0123456789",
    "abcdefghijklmnopqrstuvwxyz1234567890",
    "0123456789abcdefghijklmnopqrstuvwxyz",
    "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789",
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789",
];

/// What is repeated in one that is no secret is at most as long as this.
const PERIOD_MAX: usize = 16;

/// Whether `secret` is one of these.
pub(super) fn is_known(secret: &[u8]) -> bool {
    let repeats =
        |period: usize| secret.iter().skip(period).eq(secret.iter().take(secret.len() - period));
    PRINTED.iter().any(|printed| printed.as_bytes() == secret)
        || (1..=PERIOD_MAX.min(secret.len() / 2)).any(repeats)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_tutorials_print_and_what_repeats_is_known_and_nothing_else() {
        for known in ["a-string-secret-at-least-256-bits-long", &"secret".repeat(6)] {
            assert!(is_known(known.as_bytes()), "{known}");
        }
        assert!(is_known(&[b'x'; 32]) && is_known("0123456789abcdef".repeat(2).as_bytes()));
        for other in ["a secret for tests that everybody may know, 0123456789", "x", ""] {
            assert!(!is_known(other.as_bytes()), "{other}");
        }
        let random = "3b5f0a9c7d2e4f618293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8f9";
        assert!(!is_known(random.as_bytes()));
    }
}
