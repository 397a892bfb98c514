//! The stores that the tests run on: a fast one, a durable one, and how much of a long or repeated test runs on each.

/// Embedded: in memory, and in a file.
pub(crate) mod embedded {
    use crate::fleet::TestFleetBuilder;

    pub(crate) fn quick() -> TestFleetBuilder {
        TestFleetBuilder::memory()
    }

    pub(crate) fn lasting() -> TestFleetBuilder {
        TestFleetBuilder::sqlite()
    }

    pub(crate) fn share_of(rounds: usize) -> usize {
        rounds
    }

    pub(crate) fn retold(times: usize) -> usize {
        times
    }
}

/// PostgreSQL.
pub(crate) mod postgres {
    use crate::fleet::TestFleetBuilder;

    pub(crate) fn quick() -> TestFleetBuilder {
        TestFleetBuilder::postgres()
    }

    pub(crate) fn lasting() -> TestFleetBuilder {
        TestFleetBuilder::postgres()
    }

    /// Every operation is a round trip, and the rules are the same.
    pub(crate) fn share_of(rounds: usize) -> usize {
        rounds / 20
    }

    /// Each repetition needs its own server.
    pub(crate) fn retold(times: usize) -> usize {
        times / 10
    }
}

/// A simulated database with weak guarantees and many faults.
pub(crate) mod simulated {
    use crate::fleet::TestFleetBuilder;

    pub(crate) fn quick() -> TestFleetBuilder {
        TestFleetBuilder::simulated()
    }

    pub(crate) fn lasting() -> TestFleetBuilder {
        TestFleetBuilder::simulated()
    }

    /// Every operation is several requests, and the rules are the same.
    pub(crate) fn share_of(rounds: usize) -> usize {
        rounds / 10
    }

    pub(crate) fn retold(times: usize) -> usize {
        times
    }
}
