//! The store in memory passes the conformance suite, except for durability.

use std::sync::Arc;

use async_trait::async_trait;
use store::MemoryStore;
use store::conformance::{Harness, Stores};

struct InMemory;

#[async_trait]
impl Harness for InMemory {
    async fn open(&mut self) -> Stores {
        Stores::of(Arc::new(MemoryStore::new()))
    }

    async fn reopen(&mut self) -> Option<Stores> {
        None
    }
}

store::store_conformance!(InMemory);
