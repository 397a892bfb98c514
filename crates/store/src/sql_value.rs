//! One SQL value, converted between two kinds of stores.

use std::error::Error;

use rusqlite::types::{ToSqlOutput, ValueRef};
use tokio_postgres::types::private::BytesMut;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type};
use uuid::Uuid;

/// A value as SQLite stores it: documents as text, ids as bytes, booleans as 0 and 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SqlValue {
    Null,
    Number(i64),
    Text(String),
    Bytes(Vec<u8>),
}

impl SqlValue {
    /// Reads a column of a SQLite row.
    pub(crate) fn read(row: &rusqlite::Row<'_>, column: usize) -> rusqlite::Result<Self> {
        Ok(match row.get_ref(column)? {
            ValueRef::Null => Self::Null,
            ValueRef::Integer(number) => Self::Number(number),
            value @ ValueRef::Text(_) => Self::Text(value.as_str()?.to_owned()),
            ValueRef::Blob(bytes) => Self::Bytes(bytes.to_owned()),
            value @ ValueRef::Real(_) => {
                let name = format!("column {column}");
                return Err(rusqlite::Error::InvalidColumnType(column, name, value.data_type()));
            }
        })
    }
}

impl rusqlite::ToSql for SqlValue {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Null => ValueRef::Null,
            Self::Number(number) => ValueRef::Integer(*number),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
            Self::Bytes(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

impl<'a> FromSql<'a> for SqlValue {
    fn from_sql(kind: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(match *kind {
            Type::BOOL => Self::Number(bool::from_sql(kind, raw)?.into()),
            Type::INT4 => Self::Number(i32::from_sql(kind, raw)?.into()),
            Type::INT8 => Self::Number(i64::from_sql(kind, raw)?),
            Type::UUID => Self::Bytes(raw.to_owned()),
            _ => Self::Text(std::str::from_utf8(raw)?.to_owned()),
        })
    }

    fn from_sql_null(_: &Type) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Self::Null)
    }

    fn accepts(kind: &Type) -> bool {
        [Type::BOOL, Type::INT4, Type::INT8, Type::UUID, Type::TEXT, Type::BYTEA].contains(kind)
    }
}

impl ToSql for SqlValue {
    fn to_sql(&self, kind: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        match (self, kind) {
            (Self::Null, _) => Ok(IsNull::Yes),
            (Self::Number(number), &Type::BOOL) => (*number != 0).to_sql(kind, out),
            (Self::Number(number), &Type::INT4) => i32::try_from(*number)?.to_sql(kind, out),
            (Self::Number(number), _) => number.to_sql(kind, out),
            (Self::Text(text), &Type::BYTEA) => text.as_bytes().to_sql(kind, out),
            (Self::Text(text), _) => text.as_str().to_sql(kind, out),
            (Self::Bytes(bytes), &Type::UUID) => Uuid::from_slice(bytes)?.to_sql(kind, out),
            (Self::Bytes(bytes), _) => bytes.as_slice().to_sql(kind, out),
        }
    }

    fn accepts(kind: &Type) -> bool {
        <Self as FromSql<'_>>::accepts(kind)
    }

    tokio_postgres::types::to_sql_checked!();
}
