//! The store in memory keeps every promise but the one to last.

use std::sync::Arc;

use async_trait::async_trait;
use store::Memory;
use store::conformance::{Bench, Stores};

struct InMemory;

#[async_trait]
impl Bench for InMemory {
    async fn open(&mut self) -> Stores {
        Stores::of(Arc::new(Memory::new()))
    }

    async fn reopen(&mut self) -> Option<Stores> {
        None
    }
}

store::store_conformance!(InMemory);
