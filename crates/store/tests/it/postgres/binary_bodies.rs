//! Bodies that a text column cannot hold are stored.

use domain::{Body, Expected, JobHistory, JobStore};
use store::conformance::sample::{id, job};

use super::Database;

#[tokio::test]
async fn a_body_with_a_zero_byte_is_returned_unchanged() {
    let Some(database) = Database::new() else { return };
    let postgres = database.postgres().await;
    let body = Body("before\0after".into());

    postgres.commit(vec![job(1).commit_at(Expected::Absent, Some(body.clone()))]).await.remove(0).unwrap();

    assert_eq!(postgres.body(id(1)).await.unwrap(), Some(body));
}
