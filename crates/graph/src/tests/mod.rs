//! The store against a naive model, and what it promises at its edges.

mod bulk;
mod concurrency;
mod handover;
mod health;
mod opening;
mod stats;

use std::collections::BTreeSet;

use hub::{Followers, Id, IdText};
pub(super) use testing::seed;

use super::*;

pub(super) type Model = BTreeSet<(String, String)>;

pub(super) fn open(dir: &Path) -> Graph {
    Graph::open(dir, &GraphOptions::default()).unwrap()
}

pub(super) fn pair(subscriber: &str, subscribee: &str) -> Pair {
    Pair::parse(subscriber, subscribee).unwrap()
}

fn texts(graph: &Graph, ids: &[Id]) -> BTreeSet<String> {
    ids.iter().map(|&id| graph.names().text(id).unwrap()).collect()
}

/// Reads a list page by page and checks that pages ascend and have no gaps.
fn paged(graph: &Graph, limit: usize, page: impl Fn(Option<Id>) -> Page) -> BTreeSet<String> {
    let (mut ids, mut after) = (Vec::new(), None);
    loop {
        let Page { ids: found, next } = page(after);
        assert!(next.is_none() || found.len() == limit && next == found.last().copied());
        ids.extend(found);
        after = next;
        if after.is_none() {
            break;
        }
    }
    assert!(ids.is_sorted_by(|a, b| a < b));
    texts(graph, &ids)
}

pub(super) fn sliced(graph: &Graph, subject: Id) -> BTreeSet<String> {
    let (mut ids, mut after) = (Vec::new(), None);
    loop {
        after = graph.slice(subject, after, &mut |id| ids.push(id)).unwrap();
        if after.is_none() {
            return texts(graph, &ids);
        }
    }
}

/// Both directions of everybody in the model, by pages and slices.
pub(super) fn agree(graph: &Graph, model: &Model, people: &[String], limit: usize) {
    assert_eq!(graph.subscriptions(), model.len() as u64);
    for person in people {
        let followers: BTreeSet<_> =
            model.iter().filter(|(_, b)| b == person).map(|(a, _)| a.clone()).collect();
        let following: BTreeSet<_> =
            model.iter().filter(|(a, _)| a == person).map(|(_, b)| b.clone()).collect();
        let Some(id) = graph.names().lookup(IdText::parse(person).unwrap()) else {
            assert!(followers.is_empty() && following.is_empty());
            continue;
        };
        let page = |after| graph.page_followers(id, after, limit).unwrap();
        assert_eq!(paged(graph, limit, page), followers);
        let page = |after| graph.page_following(id, after, limit).unwrap();
        assert_eq!(paged(graph, limit, page), following);
        assert_eq!(sliced(graph, id), followers);
        let forgotten = followers.is_empty() && following.is_empty();
        assert!(!(id.is_name() && forgotten), "a name is known while a pair refers to it");
    }
}

/// A celebrity with several blocks of followers, and a crowd of small lists, names and integers.
#[test]
fn random_changes_agree_with_a_naive_model_across_reopening() {
    let mut random = fastrand::Rng::with_seed(seed());
    let people: Vec<String> =
        (0..900).map(|n| if n % 3 == 0 { format!("p{n}") } else { n.to_string() }).collect();
    let dir = tempfile::tempdir().unwrap();
    let (mut graph, mut model) = (open(dir.path()), Model::new());
    for round in 0..60 {
        let shrinking = round % 20 >= 13;
        let pairs: Vec<(String, String)> = (0..random.usize(1..400))
            .map(|_| {
                let crowd = random.usize(..people.len());
                let other = if random.bool() { random.usize(..3) } else { random.usize(..40) };
                (people[crowd].clone(), people[other].clone())
            })
            .collect();
        let request = pairs.iter().map(|(a, b)| pair(a, b)).collect();
        if shrinking || random.usize(..4) == 0 {
            let there = pairs.iter().filter(|&pair| model.remove(pair)).count();
            assert_eq!(graph.remove_blocking(request), Ok(there as u64));
        } else {
            let new = pairs.into_iter().filter(|pair| model.insert(pair.clone())).count();
            assert_eq!(graph.add_blocking(request), Ok(new as u64));
        }
        if round % 10 == 9 {
            agree(&graph, &model, &people, random.usize(1..300));
            drop(graph);
            graph = open(dir.path());
            agree(&graph, &model, &people, random.usize(1..300));
        }
    }
    let request = model.iter().map(|(a, b)| pair(a, b)).collect();
    assert_eq!(graph.remove_blocking(request), Ok(model.len() as u64));
    agree(&graph, &Model::new(), &people, 10);
    assert!(graph.names().is_empty(), "names that nobody refers to are forgotten");
}

#[test]
fn names_keep_their_ids_across_reopening() {
    let dir = tempfile::tempdir().unwrap();
    let graph = open(dir.path());
    assert_eq!(
        graph.add_blocking(vec![pair("bob", "rj"), pair("bob", "rj"), pair("7", "rj")]),
        Ok(2)
    );
    let rj = graph.names().lookup(IdText::parse("rj").unwrap()).unwrap();
    let followers = graph.page_followers(rj, None, 10).unwrap();
    drop(graph);
    let graph = open(dir.path());
    assert_eq!(graph.names().lookup(IdText::parse("rj").unwrap()), Some(rj));
    assert_eq!(graph.page_followers(rj, None, 10).unwrap(), followers);
    assert_eq!(texts(&graph, &followers.ids), ["7".to_owned(), "bob".to_owned()].into());
}
