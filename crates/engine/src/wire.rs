//! How one stream is written: its format and its carrier, in one byte of the record.

use proto::{Carrier, Format, Transport};

/// A format and a carrier.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Wire(u8);

/// The bits of the carrier; those of the format stand above them.
const CARRIER_BITS: u32 = 2;
const CARRIER_MASK: u8 = (1 << CARRIER_BITS) - 1;

const _: () = assert!(Carrier::ALL.len() <= 1 << CARRIER_BITS);
const _: () = assert!(Format::COUNT <= 1 << (u8::BITS - CARRIER_BITS));

impl Wire {
    pub(crate) const fn new(format: Format, carrier: Carrier) -> Wire {
        Wire((format as u8) << CARRIER_BITS | carrier as u8)
    }

    /// How a stream of `transport` is written. `closes` is of HTTP alone: its body ends with the
    /// connection.
    pub(crate) const fn of(transport: Transport, closes: bool) -> Wire {
        let carrier = match (transport.is_websocket(), closes) {
            (true, _) => Carrier::WebSocket,
            (false, true) => Carrier::Close,
            (false, false) => Carrier::Chunked,
        };
        Wire::new(transport.format(), carrier)
    }

    pub(crate) fn format(self) -> Format {
        Format::ALL[usize::from(self.0 >> CARRIER_BITS)]
    }

    pub(crate) fn carrier(self) -> Carrier {
        Carrier::ALL[usize::from(self.0 & CARRIER_MASK)]
    }

    /// What figures are told by.
    pub(crate) fn transport(self) -> Transport {
        Transport::of(self.format())
    }
}

impl std::fmt::Debug for Wire {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{:?} by {:?}", self.format(), self.carrier())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn byte_has_both() {
        for format in Format::ALL {
            for carrier in Carrier::ALL {
                let wire = Wire::new(format, carrier);
                assert_eq!((wire.format(), wire.carrier()), (format, carrier));
            }
        }
        assert_eq!(size_of::<Wire>(), 1);
    }

    #[test]
    fn transport_stands_for_one_way_to_write() {
        for transport in Transport::ALL {
            for closes in [false, true] {
                let wire = Wire::of(transport, closes);
                assert_eq!((wire.transport(), wire.format()), (transport, transport.format()));
                let speaks = transport.is_websocket();
                assert_eq!(wire.carrier().has_messages(), speaks, "{wire:?}");
                assert_eq!(wire.carrier() == Carrier::Close, closes && !speaks, "{wire:?}");
            }
        }
    }
}
