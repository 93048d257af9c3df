//! The files of keys of the hub, while it runs.

use std::fs;

use super::Hub;
use crate::harness::wait_for;

#[test]
fn hangup_reads_the_keys_of_publishers_and_of_subscribers_again() {
    let hub = Hub::start(&[]);
    let told = |what: &str| hub.server.stderr().matches(what).count();
    let hangup = |times: usize| {
        hub.server.signal("HUP");
        let over = "what could be reloaded is in use";
        wait_for("all is read again", || told(over) == times);
    };
    hangup(1);
    // The file has not changed, so nothing but the signal has it read: once for each of the two.
    assert_eq!(told("files with keys of tokens were read"), 2);
    // It is said at the next signal that a file is bad, however often it was said before.
    let [key, new] = ["key", "new"].map(|name| hub._files.path().join(name));
    fs::write(&new, "short").unwrap();
    fs::rename(&new, &key).unwrap();
    wait_for("the change is met", || told("the keys before stay in use") == 2);
    hangup(2);
    assert_eq!(told("the keys before stay in use"), 4);
    assert_eq!(hub.publish("topic=a&data=x").1, 0, "the key before is good");
}
