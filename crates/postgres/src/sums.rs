//! The daily check: sums of all pairs by bucket, to be compared with a replica's.
//!
//! The pairs are hashed here and not by the database. That takes 6 s instead of half a minute for
//! 15 million pairs. What is compared is what the database's table says, read through the index.

use crate::bootstrap::Order;
use crate::error::{Doing, PostgresError};
use crate::place::Place;
use crate::store::PostgresStore;
use hub::{BUCKETS, PairHash};

/// Sums of the pairs' hashes by bucket, modulo 2^64, as of one place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BucketSums {
    /// Where the graph was.
    pub place: Place,
    /// How many pairs there are.
    pub pairs: u64,
    /// [`BUCKETS`] sums. Together they are the place's hash.
    pub sums: Vec<u64>,
}

/// Where rows were changed past `encke.change`: what they sum up to is the hash from now on, in
/// another lineage, so that all replicas take them as they are. Changes wait meanwhile.
const MEND: &str = "do $$
declare
    rows bigint;
begin
    perform from encke.version for update;
    select encke.wrap(coalesce(sum(encke.hash(
            coalesce(a.name, s.subscriber::text), coalesce(b.name, s.subscribee::text)
        )), 0)) into rows
        from encke.subscriptions s
        left join encke.names a on a.id = s.subscriber
        left join encke.names b on b.id = s.subscribee;
    update encke.version
        set lineage = gen_random_uuid(), version = version + 1, hash = rows where hash <> rows;
    if found then
        delete from encke.changes;
    end if;
end $$";

impl BucketSums {
    /// Whether the pairs are those of the hash that the database keeps. If not, somebody has
    /// changed rows otherwise than the schema's functions do: see [`PostgresStore::mend`].
    pub fn add_up(&self) -> bool {
        self.sums.iter().fold(0, |total: u64, &sum| total.wrapping_add(sum)) == self.place.hash
    }
}

impl PostgresStore {
    /// Makes the rows right that do not [add up](BucketSums::add_up): another lineage begins with
    /// them as they are. Where they do add up nothing is done, so it does not matter who is first.
    ///
    /// Cost: some 3 µs a pair of the database's processor, and changes wait for it.
    pub async fn mend(&self) -> Result<(), PostgresError> {
        let session = self.patient().await?;
        session.run(&self.sql(MEND), Doing::Commit).await
    }

    /// Reads all pairs and sums them up.
    pub async fn bucket_sums(&self) -> Result<BucketSums, PostgresError> {
        let mut bootstrap = self.bootstrap().await?;
        let place = bootstrap.place();
        let mut sums = vec![0_u64; BUCKETS];
        let mut pairs = 0;
        let mut rows = bootstrap.pairs(Order::BySubscribee).await?;
        while let Some(batch) = rows.next().await? {
            for PairHash { hash, bucket } in batch.hashes() {
                debug_assert!(bucket < BUCKETS);
                sums[bucket] = sums[bucket].wrapping_add(hash);
                pairs += 1;
            }
            // Some milliseconds of computing: others have their turn.
            tokio::task::yield_now().await;
        }
        Ok(BucketSums { place, pairs, sums })
    }
}
