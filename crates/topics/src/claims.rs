//! What a verified token grants at the hub.

use hub::Claims as Verified;
use mercure::{Claims, ClaimsFault, Dialect, HubUrl, Refusal};

/// Reads what a token says, whose signature and times are good. Patterns of 1.0 are seen from
/// `hub`.
///
/// # Errors
/// The whole token is refused.
pub fn read_claims(verified: Option<&Verified>, hub: &HubUrl) -> Result<Claims, Refusal> {
    let verified = verified.ok_or(ClaimsFault::NoObject)?;
    let dialect = Dialect::of_token(verified.kind.as_deref());
    if dialect == Dialect::V1 {
        // Its issuer and its audience would have to be looked at.
        return Err(Refusal::BadToken("tokens of Mercure 1.0 are not taken here yet".into()));
    }
    let claims = serde_json::from_str(&verified.json).map_err(|_| ClaimsFault::NoObject)?;
    Ok(Claims::parse(dialect, &claims, hub)?)
}
