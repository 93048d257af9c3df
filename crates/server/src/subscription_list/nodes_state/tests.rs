//! What becomes of changes that the log brings, at the node that publishes and at others.

use topics::HeldKind;

use super::*;

fn held(text: &str) -> HeldSelector {
    HeldSelector { kind: HeldKind::Plain, text: text.into(), is_granted: true }
}

/// The subject of a subscription, as the log has it.
fn subject(who: SubscriberNumber, text: &str) -> (Subject, SubjectInfo) {
    (HubSubject::Subscription(who, held(text)).text().unwrap().into(), None)
}

fn came(
    of: &mut NodesState,
    table: &mut SubscriptionTable,
    (who, text): (SubscriberNumber, &str),
) -> ListEffect {
    let subject = HubSubject::Subscription(who, held(text));
    of.change(table, subject, RoomChange::Joined(None))
}

fn given(of: &mut NodesState) -> Vec<(String, bool)> {
    let text = |change: ListChange| (change.listed.selector.to_string(), change.is_active);
    of.give().into_iter().map(text).collect()
}

#[test]
fn change_is_kept_until_its_update_has_come_and_given_to_who_publishes() {
    let (mut of, mut table) = (NodesState::default(), SubscriptionTable::default());
    assert!(!of.settle(&mut table, vec![subject(1, "before")]));
    assert_eq!(came(&mut of, &mut table, (2, "a")), ListEffect::Changed);
    assert_eq!(came(&mut of, &mut table, (2, "b")), ListEffect::Changed);
    assert_eq!(given(&mut of), []);
    // The log has brought what another one has published.
    let path = of.pending[0].path.clone();
    of.told(ToldChange { path, is_active: true });
    of.publishes_from = Some(Instant::now());
    assert_eq!(given(&mut of), [("b".to_owned(), true)]);
    assert_eq!(given(&mut of), [], "once");
    // An update that is here before its change.
    let path = of.pending[0].path.clone();
    of.told(ToldChange { path: path.clone(), is_active: false });
    let gone = HubSubject::Subscription(2, held("b"));
    assert_eq!(of.change(&mut table, gone, RoomChange::Left), ListEffect::Changed);
    assert!(of.pending.iter().all(|pending| pending.change.is_active) && of.early.is_empty());
}

#[test]
fn updates_of_changes_that_nobody_has_said_take_so_much_room_at_most() {
    let mut of = NodesState::default();
    for number in 0..2 * EARLY_MAX {
        of.told(ToldChange { path: number.to_string(), is_active: true });
    }
    assert_eq!((of.early.len(), of.pending.len()), (EARLY_MAX, 0));
}

#[test]
fn loss_is_said_until_it_was_read() {
    let (mut of, mut table) = (NodesState::default(), SubscriptionTable::default());
    of.settle(&mut table, Vec::new());
    assert_eq!(of.of_itself("n1"), []);
    let lost = HubSubject::Lost("n1".into());
    of.losing = Some("7".into());
    assert_eq!(of.of_itself("n1"), [(lost.clone(), Some("7".into()))]);
    came(&mut of, &mut table, (1, "a"));
    let read = of.change(&mut table, lost, RoomChange::Renewed(Some("7".into())));
    assert_eq!((read, of.of_itself("n1").len(), of.pending.len()), (ListEffect::Lost, 0, 0));
}

#[test]
fn list_that_is_settled_again_has_missed_something_and_the_first_one_not() {
    let (mut of, mut table) = (NodesState::default(), SubscriptionTable::default());
    of.miss();
    of.forget_others();
    assert!(!of.settle(&mut table, Vec::new()));
    of.miss();
    of.forget_others();
    assert!(of.settle(&mut table, Vec::new()));
    // Nobody wanted it meanwhile.
    of.forget_others();
    assert!(!of.settle(&mut table, Vec::new()));
}

#[test]
fn changes_past_the_bound_of_the_list_are_told() {
    let (mut of, mut table) = (NodesState::default(), SubscriptionTable::default());
    of.settle(&mut table, Vec::new());
    let long: Arc<str> = "x".repeat(1 << 20).into();
    for who in 0..70 {
        of.payloads.insert(who, Arc::clone(&long));
        assert_eq!(came(&mut of, &mut table, (who, "a")), ListEffect::Changed);
    }
    assert!(!table.is_whole() && of.pending.len() == 70);
    let gone = HubSubject::Subscription(69, held("a"));
    assert_eq!(of.change(&mut table, gone, RoomChange::Left), ListEffect::Changed);
}

#[test]
fn payload_that_is_found_later_is_in_the_list() {
    let (mut of, mut table) = (NodesState::default(), SubscriptionTable::default());
    of.settle(&mut table, vec![subject(1, "a")]);
    of.change(&mut table, HubSubject::Payload(1), RoomChange::Joined(Some("{}".into())));
    let renewed = RoomChange::Renewed(Some("5".into()));
    let effect = of.change(&mut table, HubSubject::Subscription(1, held("a")), renewed);
    assert_eq!((effect, of.pending.len()), (ListEffect::Changed, 0));
    assert_eq!(table.of_subscriber(1)[0].payload.as_deref(), Some("{}"));
}

/// Nodes agree from which record on a change has a second form, and expect an update of each.
#[test]
fn changes_have_the_form_of_1_0_from_when_a_node_wants_it() {
    let (mut of, mut table) = (NodesState::default(), SubscriptionTable::default());
    of.settle(&mut table, Vec::new());
    came(&mut of, &mut table, (1, "before"));
    let wants = |info: Option<&str>| RoomChange::Renewed(info.map(Into::into));
    let n1 = || HubSubject::Wants("n1".into());
    assert_eq!(of.change(&mut table, n1(), RoomChange::Joined(None)), ListEffect::None);
    assert_eq!(of.known(), [Dialect::Old]);
    assert_eq!(of.change(&mut table, n1(), wants(Some(WANTS_V1))), ListEffect::NewForm);
    assert_eq!(of.change(&mut table, n1(), wants(Some(WANTS_V1))), ListEffect::None);
    assert_eq!(of.known(), [Dialect::Old, Dialect::V1]);
    came(&mut of, &mut table, (1, "a"));
    let pattern = HeldSelector { kind: HeldKind::UrlPattern, ..held("/:id") };
    of.change(&mut table, HubSubject::Subscription(1, pattern), RoomChange::Joined(None));
    of.publishes_from = Some(Instant::now());
    let given: Vec<_> = of.give().into_iter().map(|one| (one.listed.selector, one.only)).collect();
    let (old, v1) = (Some(Dialect::Old), Some(Dialect::V1));
    let expected = [("before", old), ("a", v1), ("a", old), ("/:id", v1)];
    assert_eq!(given, expected.map(|(text, only)| (text.into(), only)));
    let paths: Vec<String> = of.pending.iter().map(|pending| pending.path.clone()).collect();
    paths.into_iter().for_each(|path| of.told(ToldChange { path, is_active: true }));
    assert!(of.pending.is_empty() && of.early.is_empty());
    assert_eq!(of.change(&mut table, n1(), RoomChange::Left), ListEffect::None);
    assert_eq!((of.known(), of.wanting.len()), (&[Dialect::Old][..], 0));
}
