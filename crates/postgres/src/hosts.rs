//! Of several hosts one at a time, each with time of its own: one that takes a connection and says
//! nothing does not hide the others.

use tokio_postgres::Config;
use tokio_postgres::config::{Host, LoadBalanceHosts};

use crate::config::PostgresConfig;
use crate::error::PostgresError;

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
        let odd = PostgresConfig::from_url("host=a,b,c port=1,2 user=u").unwrap();
        assert!(each(&odd).is_err());
    }
}
