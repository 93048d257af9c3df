//! Tests of the window, of barriers and of what overtakes them.

use super::*;

fn events(count: usize) -> Item {
    let event = Event::default();
    Item::Events { origin: 7, me: Some(8), events: vec![event; count].into() }
}

/// What comes out now: sequence and index of events, or the name of what else.
fn out(pipeline: &mut Pipeline) -> (Vec<String>, Vec<Done>) {
    let (mut out, mut done) = (Vec::new(), Vec::new());
    while let Some(next) = pipeline.next(&mut done) {
        out.push(match next {
            Out::Event { sequence, index, .. } => format!("{sequence}.{index}"),
            Out::Graph(version) => format!("graph {version}"),
            Out::Order { sequence, .. } => format!("order {sequence}"),
            other => format!("{other:?}"),
        });
    }
    (out, done)
}

#[test]
fn window_is_full_until_something_is_posted() {
    let mut pipeline = Pipeline::new(0);
    pipeline.push(1, 100, events(WINDOW - 1));
    pipeline.push(2, 100, events(3));
    assert_eq!(out(&mut pipeline).0.len(), WINDOW);
    assert_eq!(out(&mut pipeline).0.len(), 0);
    pipeline.posted(2, 0, 5);
    pipeline.posted(2, 0, 5);
    // One that is not handed out yet cannot have been posted.
    pipeline.posted(2, 2, 5);
    assert_eq!(out(&mut pipeline).0, ["2.1"]);
    (0..WINDOW as u16 - 1).for_each(|index| pipeline.posted(1, index, 1));
    let (events, done) = out(&mut pipeline);
    assert_eq!((events, pipeline.applied(), done.len()), (vec!["2.2".to_owned()], 1, 1));
    assert_eq!((done[0].sequence, done[0].counts.len()), (1, WINDOW - 1));
    pipeline.posted(2, 2, 0);
    pipeline.posted(2, 1, 1);
    assert_eq!(out(&mut pipeline).1[0].counts, [5, 1, 0]);
    assert!(pipeline.is_idle() && pipeline.applied() == 2 && pipeline.read_bytes == 0);
}

#[test]
fn barrier_comes_out_when_all_before_is_posted_and_holds_up_all_behind() {
    let mut pipeline = Pipeline::new(0);
    let order = Item::Order { origin: 7, me: None, order: Order::Logout("1".into()) };
    let items = [events(2), Item::Graph(9), events(1), order, Item::Nothing, events(1)];
    for (sequence, item) in (1..).zip(items) {
        pipeline.push(sequence, 1, item);
    }
    assert_eq!(out(&mut pipeline).0, ["1.0", "1.1"]);
    pipeline.posted(1, 1, 1);
    assert_eq!(out(&mut pipeline).0.len(), 0);
    pipeline.posted(1, 0, 1);
    assert_eq!(out(&mut pipeline).0, ["graph 9"]);
    assert!(!pipeline.graph(8) && out(&mut pipeline).0.is_empty());
    assert_eq!(pipeline.applied(), 1);
    assert!(pipeline.graph(9));
    assert_eq!(out(&mut pipeline).0, ["3.0"]);
    assert_eq!(pipeline.applied(), 2);
    pipeline.posted(3, 0, 0);
    assert_eq!(out(&mut pipeline).0, ["order 4"]);
    // What is no barrier may come out while others are being posted, but not past an order.
    assert_eq!(out(&mut pipeline).0.len(), 0);
    pipeline.posted(4, 0, 2);
    assert_eq!(out(&mut pipeline).0, ["6.0"]);
    assert_eq!(pipeline.applied(), 5);
}

/// Version 3 waits for 2, which is read behind an event that must hear by both.
#[test]
fn what_a_version_waits_for_overtakes_what_that_holds_up() {
    let change = |version| Change { version, ..Change::default() };
    for out_before in [false, true] {
        let mut pipeline = Pipeline::new(0);
        pipeline.push(1, 1, Item::Graph(3));
        pipeline.push(2, 1, events(1));
        if out_before {
            assert_eq!(out(&mut pipeline).0, ["graph 3"]);
        }
        pipeline.push_change(3, 1, change(2));
        pipeline.push_change(3, 0, change(3));
        let mut all = out(&mut pipeline).0;
        pipeline.graph(2);
        all.extend(out(&mut pipeline).0);
        // Once for the change, and once for what waits for it.
        for _ in 0..2 {
            pipeline.graph(3);
            all.extend(out(&mut pipeline).0);
        }
        pipeline.posted(2, 0, 1);
        all.extend(out(&mut pipeline).0);
        let place = |what: &str| all.iter().position(|one| one.contains(what));
        assert!(place("version: 2") < place("version: 3"), "{all:?}");
        assert!(place("version: 3") < place("2.0"), "{all:?}");
        assert!(pipeline.is_idle() && pipeline.applied() == 3);
    }
}

#[test]
fn record_of_several_items_is_done_with_its_last_one() {
    let mut pipeline = Pipeline::new(0);
    pipeline.push(1, 1, Item::Graph(3));
    pipeline.push(1, 0, Item::Graph(4));
    assert_eq!(out(&mut pipeline).0, ["graph 3"]);
    pipeline.graph(3);
    assert_eq!(out(&mut pipeline).0, ["graph 4"]);
    assert_eq!(pipeline.applied(), 0);
    pipeline.graph(4);
    assert_eq!(out(&mut pipeline).0.len(), 0);
    assert_eq!(pipeline.applied(), 1);
}

/// Whoever sent it is told a count that is too low, instead of one that looks whole.
#[test]
fn event_that_cannot_be_posted_leaves_its_record_without_a_count() {
    let mut pipeline = Pipeline::new(0);
    pipeline.push(1, 1, events(2));
    pipeline.push(2, 1, events(1));
    assert_eq!(out(&mut pipeline).0.len(), 3);
    pipeline.posted(1, 0, 5);
    pipeline.unposted(1, 1);
    pipeline.posted(2, 0, 3);
    let done = out(&mut pipeline).1;
    assert_eq!((done[0].me, done[1].me), (None, Some(8)));
    assert!(pipeline.is_idle() && pipeline.applied() == 2);
}
