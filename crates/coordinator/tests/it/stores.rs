//! The stores that the tests run on: a fast one, a durable one, and how much of a long or repeated test runs on each.

/// Embedded: in memory, and in a file.
pub(crate) mod embedded {
    use crate::fleet::Bench;

    pub(crate) fn quick() -> Bench {
        Bench::memory()
    }

    pub(crate) fn lasting() -> Bench {
        Bench::sqlite()
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
    use crate::fleet::Bench;

    pub(crate) fn quick() -> Bench {
        Bench::postgres()
    }

    pub(crate) fn lasting() -> Bench {
        Bench::postgres()
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
pub(crate) mod weak {
    use crate::fleet::Bench;

    pub(crate) fn quick() -> Bench {
        Bench::weak()
    }

    pub(crate) fn lasting() -> Bench {
        Bench::weak()
    }

    /// Every operation is several requests, and the rules are the same.
    pub(crate) fn share_of(rounds: usize) -> usize {
        rounds / 10
    }

    pub(crate) fn retold(times: usize) -> usize {
        times
    }
}
