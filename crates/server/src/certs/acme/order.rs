//! One order: account, names, their proofs, certificate (RFC 8555, section 7.1).

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use instant_acme::{
    Account, AuthorizationStatus, ChallengeType, Error, Identifier, NewAccount, NewOrder, Order,
    OrderStatus, Problem, RetryPolicy,
};
use rustls::crypto::aws_lc_rs;

use super::challenges::Challenges;
use super::client::Client;
use super::store::{Made, Store};
use super::{AcmeConfig, Proof, at_the_disk};

/// How often a directory is asked how far it is.
const POLLS: RetryPolicy = RetryPolicy::new()
    .initial_delay(Duration::from_millis(500))
    .backoff(1.5)
    .timeout(Duration::from_secs(90));

/// What the directory says of an account that it has not (RFC 8555, section 6.7).
const NO_ACCOUNT: &str = "urn:ietf:params:acme:error:accountDoesNotExist";

/// Asks for a certificate; its names are proven by `proof`.
pub(super) async fn order(
    config: &AcmeConfig,
    store: &Arc<Store>,
    challenges: &Challenges,
    proof: Proof,
) -> Result<Made> {
    let account = account(config, store).await?;
    let names: Vec<Identifier> = config.domains.iter().cloned().map(Identifier::Dns).collect();
    let order = account.new_order(&NewOrder::new(&names)).await;
    if let Err(Error::Api(problem)) = &order
        && problem.r#type.as_deref() == Some(NO_ACCOUNT)
    {
        let store = Arc::clone(store);
        at_the_disk(move || store.put_account_aside()).await?;
        bail!("the directory does not know the account any more; the next try makes a new one");
    }
    let mut order = order.context("the directory takes no order")?;
    prove(&mut order, challenges, proof).await?;
    match order.poll_ready(&POLLS).await {
        Ok(OrderStatus::Ready | OrderStatus::Valid) => {}
        Err(error) if is_stale(&error) => return Err(error).context("it was not asked"),
        // The order itself says less than what of it has failed.
        Ok(_) | Err(Error::Api(_)) => return Err(refusal(&mut order).await),
        Err(error) => return Err(error).context("the directory does not come to look"),
    }
    let key = order.finalize().await.context("the directory takes no request")?;
    let chain = order.poll_certificate(&POLLS).await.context("no certificate comes")?;
    Ok(Made { chain, key: key.into() })
}

/// The account that is kept, or a new one.
async fn account(config: &AcmeConfig, store: &Arc<Store>) -> Result<Account> {
    let directory = &config.directory;
    let unreachable = || format!("the directory {directory} cannot be used");
    let (of_store, ca) = (Arc::clone(store), config.ca.clone());
    let read = move || Ok((of_store.account()?, Client::new(ca.as_deref())?));
    let (kept, client) = at_the_disk(read).await?;
    let builder = Account::builder_with_http(Box::new(client));
    if let Some(kept) = kept {
        return builder.from_credentials(kept).await.with_context(unreachable);
    }
    let contacts: Vec<String> =
        config.contacts.iter().map(|contact| format!("mailto:{contact}")).collect();
    let contacts: Vec<&str> = contacts.iter().map(String::as_str).collect();
    let new = NewAccount {
        contact: &contacts,
        terms_of_service_agreed: true,
        only_return_existing: false,
    };
    let made = builder.create(&new, directory.clone(), None).await;
    let (account, credentials) = made.with_context(unreachable)?;
    let store = Arc::clone(store);
    at_the_disk(move || store.write_account(&credentials)).await?;
    tracing::info!(directory, "an account for automatic certificates is made");
    Ok(account)
}

/// Makes the answers ready, and tells the directory so.
async fn prove(order: &mut Order, challenges: &Challenges, proof: Proof) -> Result<()> {
    let provider = aws_lc_rs::default_provider();
    let mut authorizations = order.authorizations();
    while let Some(authorization) = authorizations.next().await {
        let mut authorization = authorization.context("an authorization cannot be read")?;
        match authorization.status {
            AuthorizationStatus::Valid => continue,
            AuthorizationStatus::Pending => {}
            status => bail!("{} is {status:?}", authorization.identifier()),
        }
        let name = authorization.identifier().to_string();
        let kind = match proof {
            Proof::TlsAlpn => ChallengeType::TlsAlpn01,
            Proof::Http => ChallengeType::Http01,
        };
        let challenge = authorization.challenge(kind.clone());
        let mut challenge = challenge
            .with_context(|| format!("the directory does not take {proof:?} for {name}"))?;
        let answer = challenge.key_authorization();
        match proof {
            Proof::TlsAlpn => {
                challenges.add_handshake(&name, answer.digest().as_ref(), &provider)?;
            }
            Proof::Http => challenges.add_request(&challenge.token, answer.as_str())?,
        }
        match challenge.set_ready().await {
            Ok(()) => {}
            // It has looked already.
            Err(Error::Api(problem)) if !is_stale_problem(&problem) => {
                return Err(not_proven(&name, &kind, &problem));
            }
            error => error.with_context(|| format!("the directory does not look for {name}"))?,
        }
    }
    Ok(())
}

fn not_proven(name: &str, kind: &ChallengeType, problem: &Problem) -> anyhow::Error {
    anyhow!(
        "{name} is not proven by {kind:?}: {problem}; the name must lead here, at the port that \
         the directory asks (443 for TLS, 80 for HTTP)"
    )
}

/// Whether the directory would not take the number that it had given out itself (`badNonce`, RFC
/// 8555, section 6.5), however often it was asked for another one.
pub(super) fn is_bad_nonce(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| cause.downcast_ref().is_some_and(is_stale))
}

fn is_stale(error: &Error) -> bool {
    matches!(error, Error::Api(problem) if is_stale_problem(problem))
}

fn is_stale_problem(problem: &Problem) -> bool {
    problem.r#type.as_deref() == Some("urn:ietf:params:acme:error:badNonce")
}

/// What the directory did not like.
async fn refusal(order: &mut Order) -> anyhow::Error {
    let mut authorizations = order.authorizations();
    while let Some(Ok(mut authorization)) = authorizations.next().await {
        if authorization.refresh().await.is_err() {
            continue;
        }
        let name = authorization.identifier().to_string();
        let errors = authorization
            .challenges
            .iter()
            .filter_map(|challenge| Some((challenge.error.as_ref()?, &challenge.r#type)));
        if let Some((problem, kind)) = errors.into_iter().next() {
            return not_proven(&name, kind, problem);
        }
    }
    match &order.state().error {
        Some(problem) => anyhow!("the order is refused: {problem}"),
        None => anyhow!("the order is refused"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_that_is_stale_is_told_from_a_refusal() {
        let error = |kind: &str| {
            let json = format!("{{\"type\":\"urn:ietf:params:acme:error:{kind}\",\"status\":400}}");
            let problem = serde_json::from_str(&json).unwrap();
            anyhow::Error::new(Error::Api(problem)).context("the directory takes no order")
        };
        assert!(is_bad_nonce(&error("badNonce")));
        assert!(!is_bad_nonce(&error("rateLimited")) && !is_bad_nonce(&anyhow!("badNonce")));
    }
}
