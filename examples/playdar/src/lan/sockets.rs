//! The two sockets of the LAN.
//!
//! One is bound to the group's address, so it hears what is sent to the group and nothing else. Any
//! number of daemons of a machine may have one. The other is bound to an address of our own. All
//! that we say goes out of it, so that answers come back to it, and what comes from it is known as
//! our own. It takes the group's port where that is free, since the Erlang daemon answers to that
//! one whatever port it was asked from. Where a second daemon of the machine has it, it takes any
//! other.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket as StdUdpSocket};

use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::UdpSocket;

/// Both of them.
#[derive(Debug)]
pub(super) struct Sockets {
    /// Hears what is sent to the group.
    pub(super) group: UdpSocket,
    /// Says everything, and hears what is sent to us alone.
    pub(super) own: UdpSocket,
    /// Where `own` is.
    pub(super) own_address: SocketAddr,
}

/// Opens them on the interface that has this address, else on the one through which the system
/// would send to the group.
pub(super) fn open(group: SocketAddrV4, interface: Option<Ipv4Addr>) -> io::Result<Sockets> {
    let interface = match interface {
        Some(address) => address,
        None => address_towards(group)?,
    };
    let listening = udp_socket()?;
    listening.set_reuse_address(true)?;
    listening.bind(&SocketAddr::V4(group).into())?;
    listening.join_multicast_v4(group.ip(), &interface)?;

    let own = udp_socket()?;
    let wanted = SocketAddr::from((interface, group.port()));
    own.bind(&wanted.into()).or_else(|_| own.bind(&SocketAddr::from((interface, 0)).into()))?;
    own.set_multicast_if_v4(&interface)?;
    // Other daemons of this machine hear what we say, and so do we: our own address tells it.
    own.set_multicast_loop_v4(true)?;
    own.set_multicast_ttl_v4(1)?;
    let own = UdpSocket::from_std(own.into())?;
    let own_address = own.local_addr()?;
    Ok(Sockets { group: UdpSocket::from_std(listening.into())?, own, own_address })
}

/// Opens them anew where our address is no longer that of `own_address`.
pub(super) fn moved(
    group: SocketAddrV4,
    interface: Option<Ipv4Addr>,
    own_address: SocketAddr,
) -> io::Result<Option<Sockets>> {
    let is_here = interface.is_some() || address_towards(group)? == own_address.ip();
    if is_here { Ok(None) } else { open(group, None).map(Some) }
}

/// Our address on the way to `group`. A connect of UDP sends nothing.
fn address_towards(group: SocketAddrV4) -> io::Result<Ipv4Addr> {
    let probe = StdUdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    probe.connect(group)?;
    match probe.local_addr()? {
        SocketAddr::V4(address) => Ok(*address.ip()),
        SocketAddr::V6(_) => Ok(Ipv4Addr::UNSPECIFIED),
    }
}

fn udp_socket() -> io::Result<Socket> {
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}
