//! Packets cut anywhere.

use ketama::parse;

use super::*;

fn continuum() -> watch::Receiver<Continuum> {
    let list = format!("a:1 1\n{} 1\nc:1 5\n", "b".repeat(255));
    watch::channel(Continuum::new(&parse(list.as_bytes()).unwrap()).unwrap()).1
}

/// What comes, so many bytes at a time.
struct Pieces<'a>(&'a [u8], usize);

impl Read for Pieces<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let len = self.1.min(self.0.len()).min(buffer.len());
        let (piece, rest) = self.0.split_at(len);
        buffer[..len].copy_from_slice(piece);
        self.0 = rest;
        Ok(len)
    }
}

fn packet(key: &[u8]) -> Vec<u8> {
    [&[u8::try_from(key.len()).unwrap()], key].concat()
}

#[test]
fn answers_are_the_same_however_keys_are_split() {
    let continuum = continuum();
    let keys: Vec<Vec<u8>> = (0..=255).map(|len| vec![b'k'; len]).collect();
    let input: Vec<u8> = keys.iter().flat_map(|key| packet(key)).collect();
    let expected: Vec<u8> = keys
        .iter()
        .flat_map(|key| packet(continuum.borrow().server(key).address().as_bytes()))
        .collect();
    for size in [1, 2, 3, 255, 256, 257, 1000, BATCH_BYTES] {
        let mut output = Vec::new();
        answer_all(&mut Pieces(&input, size), &mut output, &continuum).unwrap();
        assert!(output == expected, "in pieces of {size}");
    }
}

#[test]
fn short_keys_with_long_answers_do_not_grow_the_buffer() {
    struct Writes(usize, usize);
    impl Write for Writes {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 = self.0.max(bytes.len());
            self.1 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let list = format!("{} 1\n", "b".repeat(255));
    let only = Continuum::new(&parse(list.as_bytes()).unwrap()).unwrap();
    let (_sender, continuum) = watch::channel(only);
    let mut writes = Writes(0, 0);
    answer_all(&mut &[0; 100_000][..], &mut writes, &continuum).unwrap();
    assert!(writes.0 <= BATCH_BYTES + PACKET_BYTES_MAX);
    assert_eq!(writes.1, 100_000 * 256);
}

#[test]
fn half_a_packet_at_the_end_is_told() {
    for (input, got, whole) in [(&b"\x01a\x03bc"[..], 3, 4), (b"\x05", 1, 6)] {
        let mut output = Vec::new();
        let error = answer_all(&mut &input[..], &mut output, &continuum()).unwrap_err();
        let error: PacketsError = error.downcast().unwrap();
        assert!(matches!(error, PacketsError::Half { got: g, whole: w } if (g, w) == (got, whole)));
        assert_eq!(output.is_empty(), got == 1, "what was whole is answered");
    }
}
