//! KEDA's external scaler, asked by a client of gRPC.
#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod keda;
