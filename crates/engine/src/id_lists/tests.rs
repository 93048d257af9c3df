//! The lists against sorted vectors, and what they take.

use super::*;
use crate::sim::Random;

fn id(number: usize) -> IdHash {
    IdHash::of_bits(number as u32)
}

impl IdLists {
    /// Bytes of all pages, and of what tells them apart.
    fn bytes(&self) -> usize {
        let of_pages = |pages: &Vec<IdsPage>| -> usize {
            let ids: usize = pages.iter().map(|page| size_of_val(&*page.ids)).sum();
            ids + pages.capacity() * size_of::<IdsPage>()
        };
        self.sizes.iter().map(|blocks| of_pages(&blocks.pages)).sum()
    }

    /// Ids for which blocks in use have room.
    fn room(&self) -> usize {
        let in_use = |page: &IdsPage| page.used.iter().map(|bits| bits.count_ones()).sum::<u32>();
        let of_size = |(size, blocks): (usize, &Blocks)| {
            blocks.pages.iter().map(|page| (in_use(page) as usize) << size).sum::<usize>()
        };
        self.sizes.iter().enumerate().map(of_size).sum()
    }

    fn is_consistent(&self) -> bool {
        self.sizes.iter().enumerate().all(|(size, blocks)| {
            let has_room = |page: &IdsPage| page.first_free() < blocks_of_page(size);
            let mut pages = (0..).zip(&blocks.pages);
            blocks.pages.last().is_none_or(|last| !last.is_unused())
                && pages.all(|(number, page)| {
                    has_room(page) == blocks.roomy.contains(&number)
                        && page.is_unused() == page.ids.is_empty()
                })
        })
    }
}

#[test]
fn lists_are_what_sorted_vectors_say_and_do_not_touch_each_other() {
    let mut random = Random::of_test();
    let mut lists = IdLists::default();
    let mut all: Vec<(List, Vec<IdHash>)> = vec![Default::default(); 700];
    // Most lists stay short, some grow long.
    for round in 0..60_000 {
        let owner = match random.one_in(3) {
            true => random.below(5),
            false => random.below(all.len()),
        };
        let (list, model) = &mut all[owner];
        match random.below(8) {
            0 if round % 16 == 0 => {
                lists.clear(list);
                model.clear();
            }
            0..3 => {
                let new = (0..1 + random.below(20)).map(|_| id(random.below(300)));
                let mut new: Vec<IdHash> = new.collect();
                new.sort_unstable();
                lists.put(list, &new);
                model.extend(new);
                model.sort_unstable();
            }
            3 => assert_eq!(lists.pop(list), model.pop()),
            _ => {
                let any = match random.one_in(2) {
                    true => model.get(random.below(model.len().max(1))).copied(),
                    false => None,
                };
                let gone = any.unwrap_or(id(random.below(300)));
                let at = model.binary_search(&gone).ok();
                assert_eq!(lists.take(list, gone), at.is_some());
                at.map(|at| model.remove(at));
            }
        }
        assert!(lists.of(*list).iter().eq(model.iter()));
        assert_eq!(*list == List::default(), model.is_empty());
        if round % 1_000 == 0 {
            assert!(lists.is_consistent());
            let ids: usize = all.iter().map(|(_, model)| model.len()).sum();
            assert!(lists.room() <= 4 * ids);
            for (list, model) in &all {
                assert!(lists.of(*list).iter().eq(model.iter()));
            }
        }
    }
    for (list, _) in &mut all {
        lists.clear(list);
    }
    assert!(lists.is_consistent());
    assert_eq!(lists.sizes.iter().map(|blocks| blocks.pages.len()).sum::<usize>(), 0);
}

#[test]
fn second_ids_take_little_more_than_four_bytes_and_none_when_they_are_gone() {
    const OWNERS: usize = 100_000;
    let mut lists = IdLists::default();
    let mut all = vec![List::default(); OWNERS];
    for (number, list) in all.iter_mut().enumerate() {
        lists.put(list, &[id(number)]);
    }
    assert!(lists.bytes() <= OWNERS * 9 / 2, "{} bytes", lists.bytes());
    // Of further ones each takes 8 at the most, right after its block has grown.
    for further in 1..40 {
        for (number, list) in all.iter_mut().enumerate() {
            lists.put(list, &[id(number + further)]);
        }
        assert!(lists.room() * size_of::<IdHash>() <= OWNERS * (further + 1) * 8);
    }
    for (number, list) in all.iter_mut().enumerate() {
        (1..40).for_each(|further| assert!(lists.take(list, id(number + further))));
        assert_eq!(lists.of(*list), [id(number)]);
    }
    assert!(lists.room() <= OWNERS * 2, "room for {}", lists.room());
    all.iter_mut().for_each(|list| lists.clear(list));
    let pages: usize = lists.sizes.iter().map(|blocks| blocks.pages.len()).sum();
    assert_eq!((pages, lists.room()), (0, 0));
}

#[test]
fn pages_are_filled_from_the_first_one_so_that_the_last_ones_can_go() {
    let mut lists = IdLists::default();
    let mut all = vec![List::default(); 10 * PAGE_IDS];
    all.iter_mut().for_each(|list| lists.put(list, &[id(1)]));
    assert_eq!(lists.sizes[0].pages.len(), 10);
    let (stay, go) = all.split_at_mut(PAGE_IDS);
    go.iter_mut().for_each(|list| lists.clear(list));
    assert_eq!(lists.sizes[0].pages.len(), 1);
    let mut next = vec![List::default(); 2 * PAGE_IDS];
    next.iter_mut().for_each(|list| lists.put(list, &[id(2)]));
    stay.iter_mut().for_each(|list| lists.clear(list));
    assert!(lists.sizes[0].pages[0].ids.is_empty(), "what nobody uses is given back");
    let mut one = List::default();
    lists.put(&mut one, &[id(3)]);
    assert_eq!((one.parts(), lists.of(one)), (Some((0, 0)), &[id(3)][..]));
}

#[test]
fn list_of_many_ids_grows_and_shrinks_block_by_block() {
    const IDS: usize = 10_000;
    let (mut lists, mut list) = (IdLists::default(), List::default());
    // In an order in which nearly all stand in the middle.
    for n in (0..IDS).map(|n| n * 7_919 % IDS) {
        lists.put(&mut list, &[id(n)]);
    }
    assert!(lists.of(list).iter().copied().eq((0..IDS).map(id)));
    assert_eq!(lists.room(), IDS.next_power_of_two());
    lists.put(&mut list, &Vec::from_iter((IDS..3 * IDS).map(id)));
    assert_eq!(lists.of(list).len(), 3 * IDS);
    for n in (0..3 * IDS).map(|n| n * 7_919 % (3 * IDS)) {
        assert!(lists.take(&mut list, id(n)) && !lists.take(&mut list, id(n)));
        assert!(lists.room() <= (4 * lists.of(list).len()).max(2));
    }
    assert_eq!(list, List::default());
}
