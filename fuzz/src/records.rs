//! What a node of a cluster may read from the log and hear from others.

use cluster::{Config, Epoch, GraphPlace, Known, Node, Record};

/// Any bytes as a record: it is one in one form only, and a node goes on whatever it reads.
pub fn log_record(data: &[u8]) {
    if let Ok(record) = Record::decode(data) {
        assert_eq!(record.encode(), data);
    }
    let mut node = node();
    node.record(1, 1, 1, data);
    node.record(2, 1, 2, data);
    end(&mut node);
}

/// Any bytes as a message of another node.
pub fn core_message(data: &[u8]) {
    let mut node = node();
    node.core_message(1, data);
    node.core_message(2, data);
    end(&mut node);
}

/// A node that has begun to read the log.
fn node() -> Node {
    let config = Config { name: "n".into(), address: String::new(), nonce: 7, proves: true };
    let (epoch, known) = (Epoch { number: 1, base: 0 }, Known::Read { epoch: 1, sequence: 0 });
    let mut node = Node::new(0, config, epoch, GraphPlace::default(), known);
    node.following(0, 1, 1, 0);
    node
}

/// All that the node asks for, of which there is not much.
fn end(node: &mut Node) {
    node.tick(60_000);
    let actions = std::iter::from_fn(|| node.next_action()).count();
    assert!(actions < 5_000, "{actions}");
}
