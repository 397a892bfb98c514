//! `giga mode`

use domain::DispatchModes;

use crate::cli::ModeArgs;
use crate::config::Origin;
use crate::failure::Failure;
use crate::output::Table;

use super::Context;

/// Shows how work reaches factories, or switches it.
pub(super) async fn mode(context: &Context<'_>, args: ModeArgs) -> Result<(), Failure> {
    let client = context.client()?;
    let product = &context.config.client.product;
    // A product that comes from the environment must not turn a switch of the fleet into one of a product.
    let named = product.value.as_ref().filter(|_| matches!(product.origin, Origin::Flag(_)));
    if let Some(preemption) = args.preemption {
        let flags = client.set_preemption(preemption).await?;
        return show(context, &flags);
    }
    let flags = match (args.mode, args.follow) {
        (None, false) => client.flags().await?.0,
        (None, true) if named.is_none() => {
            return Err(Failure::usage("--follow needs --product")
                .hint("`giga mode --follow --product NAME` has that product follow the others again"));
        }
        (mode, _) => client.set_mode(named, mode).await?,
    };
    show(context, &flags)
}

fn show(context: &Context<'_>, flags: &DispatchModes) -> Result<(), Failure> {
    if context.out.is_json() {
        return context.out.document(flags);
    }
    context.out.table(&table(flags))?;
    match flags.preemption {
        Some(true) => context.out.line("preemption: on (critical jobs may take the seats of preemptible ones)"),
        Some(false) => context.out.line("preemption: off"),
        None => Ok(()),
    }
}

fn table(flags: &DispatchModes) -> Table {
    let mut table = Table::new(&["PRODUCT", "MODE"], "PRODUCT");
    for (product, mode) in &flags.products {
        table.row(vec![product.as_str().into(), mode.as_str().into()]);
    }
    let rest = if flags.products.is_empty() { "(all)" } else { "(all others)" };
    table.row(vec![rest.into(), flags.mode.as_str().into()]);
    table
}
