//! The caller of a request, and its permissions [I12].

use std::collections::BTreeSet;

use domain::{Actor, Capability, FactoryId, PoolName, ProductId, SessionId, Token, TokenId, TokenScope};

use crate::error::Error;

/// The caller of a request. Made from a token, never from a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal {
    /// The token.
    pub token: TokenId,
    /// Its name: the actor in events.
    pub name: String,
    /// The person that the token belongs to; the token's name when absent.
    pub owner: Option<String>,
    /// The token's scope.
    pub grant: TokenScope,
    /// The browser session that stands for the token.
    pub session: Option<SessionId>,
}

impl Principal {
    pub(crate) fn of(token: &Token) -> Self {
        Self {
            token: token.id,
            name: token.name.clone(),
            owner: token.owner.clone(),
            grant: token.grant.clone(),
            session: None,
        }
    }

    /// The person behind the token: the author of jobs, and the reviewer in votes. All tokens and browser sessions of one
    /// owner are one person.
    pub fn person(&self) -> &str {
        self.owner.as_deref().unwrap_or(&self.name)
    }

    /// Requires permission to vote on work of a product. A factory never votes, whatever its scope.
    pub fn require_voter(&self, product: &ProductId) -> Result<(), Error> {
        match &self.grant {
            TokenScope::Factory { .. } => Err(forbidden("a factory cannot vote on work: a person has to")),
            _ => self.require_operator(product),
        }
    }

    /// The actor in events.
    pub(crate) fn actor(&self) -> Actor {
        match &self.grant {
            TokenScope::Factory { factory, .. } => Actor::Factory(factory.clone()),
            TokenScope::Admin | TokenScope::Operator { .. } | TokenScope::Viewer { .. } | TokenScope::Join { .. } => {
                Actor::Person(self.name.clone())
            }
        }
    }

    /// Requires permission to run the fleet: tokens, products, factories.
    pub fn require_admin(&self) -> Result<(), Error> {
        match self.grant {
            TokenScope::Admin => Ok(()),
            _ => Err(forbidden("an admin token is needed")),
        }
    }

    /// Requires permission to submit jobs of a product and act on them.
    pub fn require_operator(&self, product: &ProductId) -> Result<(), Error> {
        match &self.grant {
            TokenScope::Admin => Ok(()),
            TokenScope::Operator { products } if covers(products, product) => Ok(()),
            TokenScope::Operator { .. } => Err(forbidden(&format!("it does not cover product `{product}`"))),
            _ => Err(forbidden("an operator or admin token is needed")),
        }
    }

    /// Whether the caller may see jobs of a product.
    pub fn sees(&self, product: &ProductId) -> bool {
        match &self.grant {
            TokenScope::Admin => true,
            TokenScope::Operator { products }
            | TokenScope::Viewer { products }
            | TokenScope::Factory { products, .. } => covers(products, product),
            TokenScope::Join { .. } => false,
        }
    }

    /// Requires permission to see the whole fleet.
    pub fn require_fleet_view(&self) -> Result<(), Error> {
        match self.grant {
            TokenScope::Join { .. } => Err(forbidden("a join token can only enrol a factory")),
            _ => Ok(()),
        }
    }

    /// The products that the token is limited to; all when empty.
    pub fn products(&self) -> BTreeSet<ProductId> {
        match &self.grant {
            TokenScope::Operator { products }
            | TokenScope::Viewer { products }
            | TokenScope::Factory { products, .. } => products.clone(),
            TokenScope::Admin | TokenScope::Join { .. } => BTreeSet::new(),
        }
    }

    /// The factory of the token.
    pub fn factory(&self) -> Result<&FactoryId, Error> {
        match &self.grant {
            TokenScope::Factory { factory, .. } => Ok(factory),
            _ => Err(forbidden("a factory token is needed")),
        }
    }

    /// The pool of the token's factory.
    pub(crate) fn pool(&self) -> Option<&PoolName> {
        match &self.grant {
            TokenScope::Factory { pool, .. } => pool.as_ref(),
            _ => None,
        }
    }

    /// Requires the token of this factory, or of an administrator.
    pub fn factory_or_admin(&self, factory: &FactoryId) -> Result<(), Error> {
        match &self.grant {
            TokenScope::Admin => Ok(()),
            TokenScope::Factory { factory: own, .. } if own == factory => Ok(()),
            _ => Err(forbidden(&format!("a token of factory `{factory}` is needed"))),
        }
    }

    /// The capabilities that the token allows, normalised; any when empty.
    pub(crate) fn capabilities(&self) -> BTreeSet<Capability> {
        match &self.grant {
            TokenScope::Factory { capabilities, .. } => {
                capabilities.iter().cloned().map(Capability::canonical).collect()
            }
            _ => BTreeSet::new(),
        }
    }
}

fn covers(products: &BTreeSet<ProductId>, product: &ProductId) -> bool {
    products.is_empty() || products.contains(product)
}

fn forbidden(why: &str) -> Error {
    Error::Forbidden(why.to_owned())
}
