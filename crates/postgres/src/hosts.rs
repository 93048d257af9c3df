//! Of several hosts, and of several addresses of one, one at a time, each with time of its own, as
//! libpq has it: one that takes a connection and says nothing does not hide the others.

use std::net::IpAddr;

use tokio::net::lookup_host;
use tokio::time::timeout;
use tokio_postgres::Config;
use tokio_postgres::config::{Host, LoadBalanceHosts};

use crate::config::PostgresConfig;
use crate::error::PostgresError;
use crate::limits::ADDRESSES_MAX;

/// The configuration of each host, in the order in which they are tried.
pub(crate) fn each(config: &PostgresConfig) -> Result<Vec<PostgresConfig>, PostgresError> {
    let all = &config.postgres;
    let [hosts, addresses] = [all.get_hosts().len(), all.get_hostaddrs().len()];
    let (count, ports) = (hosts.max(addresses), all.get_ports().len());
    if hosts > 0 && addresses > 0 && hosts != addresses || ports > 1 && ports != count {
        let why = "its URL names several hosts, and not as many addresses, or ports".to_owned();
        return Err(PostgresError::Unusable(why));
    }
    let of = |at: usize| PostgresConfig { postgres: only(all, at), ..config.clone() };
    let mut each: Vec<PostgresConfig> = (0..count).map(of).collect();
    if all.get_load_balance_hosts() == LoadBalanceHosts::Random {
        fastrand::shuffle(&mut each);
    }
    Ok(each)
}

/// The configuration of each address that the name of the only host of `host` has, in their order.
pub(crate) async fn addresses(host: PostgresConfig) -> Vec<PostgresConfig> {
    let mut addresses: Vec<IpAddr> = Vec::new();
    if let ([Host::Tcp(name)], []) = (host.postgres.get_hosts(), host.postgres.get_hostaddrs())
        // Where that fails the library, which looks again, says why.
        && let Ok(Ok(found)) = timeout(host.connect_timeout, lookup_host((name.as_str(), 0))).await
    {
        for address in found.map(|address| address.ip()) {
            if !addresses.contains(&address) && addresses.len() < ADDRESSES_MAX {
                addresses.push(address);
            }
        }
    }
    if addresses.len() < 2 {
        return vec![host];
    }
    if host.postgres.get_load_balance_hosts() == LoadBalanceHosts::Random {
        fastrand::shuffle(&mut addresses);
    }
    addresses.into_iter().map(|address| at(&host, address)).collect()
}

/// Why none will do, by what each address of each host came to. What one address of a name answers
/// holds for the name: there may be nothing at the others. Where all of a host are away, they may
/// come back.
pub(crate) fn reason(hosts: Vec<Vec<PostgresError>>) -> PostgresError {
    let (mut away, mut last): (Vec<String>, _) = (Vec::new(), None);
    for host in hosts {
        let (mut silent, mut answered) = (Vec::new(), None);
        for error in host {
            match error {
                PostgresError::Away(why) => silent.push(why),
                other => answered = Some(other),
            }
        }
        if answered.is_none() {
            silent.retain(|why| !away.contains(why));
            away.extend(silent);
        }
        last = answered.or(last);
    }
    away.dedup();
    match last {
        None if away.is_empty() => PostgresError::Unusable("its URL names no host".into()),
        Some(error) if away.is_empty() => error,
        other => {
            away.extend(other.map(|error| error.to_string()));
            PostgresError::Away(away.join("; "))
        }
    }
}

/// `host` at this address. It keeps its name, for its certificate and its password.
fn at(host: &PostgresConfig, address: IpAddr) -> PostgresConfig {
    let mut one = host.clone();
    one.postgres.hostaddr(address);
    one
}

/// `all` with the host at this place alone.
fn only(all: &Config, at: usize) -> Config {
    let mut one = Config::new();
    match all.get_hosts().get(at) {
        Some(Host::Tcp(name)) => drop(one.host(name)),
        Some(Host::Unix(folder)) => drop(one.host_path(folder)),
        None => {}
    }
    if let Some(&address) = all.get_hostaddrs().get(at) {
        one.hostaddr(address);
    }
    // One for all, or one for each.
    let ports = all.get_ports();
    if let Some(&port) = ports.get(at).or(ports.first()) {
        one.port(port);
    }
    if let Some(user) = all.get_user() {
        one.user(user);
    }
    if let Some(name) = all.get_dbname() {
        one.dbname(name);
    }
    if let Some(options) = all.get_options() {
        one.options(options);
    }
    if let Some(name) = all.get_application_name() {
        one.application_name(name);
    }
    if let Some(&time) = all.get_tcp_user_timeout() {
        one.tcp_user_timeout(time);
    }
    one.keepalives(all.get_keepalives()).keepalives_idle(all.get_keepalives_idle());
    if let Some(time) = all.get_keepalives_interval() {
        one.keepalives_interval(time);
    }
    if let Some(count) = all.get_keepalives_retries() {
        one.keepalives_retries(count);
    }
    one.ssl_negotiation(all.get_ssl_negotiation()).channel_binding(all.get_channel_binding());
    one.target_session_attrs(all.get_target_session_attrs());
    // Of the addresses of its name.
    one.load_balance_hosts(all.get_load_balance_hosts());
    one
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_host_has_its_port_and_all_else_of_the_url() {
        let words = "host=a,b,/run port=1,2,3 user=u dbname=d application_name=n";
        let mut config = PostgresConfig::from_url(words).unwrap();
        config.schema = "other".into();
        let all = each(&config).unwrap();
        for (one, port) in all.iter().zip(1..) {
            assert_eq!(
                (one.postgres.get_hosts().len(), one.postgres.get_ports()),
                (1, &[port][..])
            );
            assert_eq!(one.postgres.get_dbname(), Some("d"));
            assert_eq!(one.postgres.get_application_name(), Some("n"));
            assert_eq!(one.schema, "other");
        }
        assert_eq!(all.len(), 3);
        assert_eq!(all[1].postgres.get_hosts(), [Host::Tcp("b".into())]);
        let here = at(&all[1], [127, 0, 0, 1].into());
        assert_eq!(here.postgres.get_hosts(), [Host::Tcp("b".into())]);
        assert_eq!(here.postgres.get_hostaddrs(), [IpAddr::from([127, 0, 0, 1])]);
        let odd = PostgresConfig::from_url("host=a,b,c port=1,2 user=u").unwrap();
        assert!(each(&odd).is_err());
    }

    #[test]
    fn what_one_address_answers_holds_for_its_name_and_a_host_that_is_away_may_come_back() {
        let away = |why: &str| PostgresError::Away(why.into());
        let wrong = || PostgresError::Unusable("wrong password".into());
        for one in [vec![away("refused"), wrong()], vec![wrong(), away("refused")]] {
            assert_eq!(reason(vec![one]).to_string(), wrong().to_string());
        }
        let both = reason(vec![vec![away("one"), away("one")], vec![wrong()]]);
        let PostgresError::Away(why) = both else { panic!("{both}") };
        assert_eq!(why, format!("one; {}", wrong()));
        assert!(matches!(reason(Vec::new()), PostgresError::Unusable(_)));
    }

    #[tokio::test]
    async fn host_without_a_name_or_with_one_address_is_tried_as_it_is() {
        for words in ["host=/run user=u", "hostaddr=::1 user=u", "host=127.0.0.1 user=u"] {
            let host = PostgresConfig::from_url(words).unwrap();
            let all = addresses(host.clone()).await;
            assert_eq!(all.len(), 1, "{words}");
            assert_eq!(all[0].postgres, host.postgres);
        }
    }
}
